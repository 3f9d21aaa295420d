import { isObject } from './is-object.js'
import { policy } from './parse.js'
import type { BackoffInput, Policy, PolicyInput } from './policy.js'

/** Extends a policy with another, field by field; a backoff of the same kind is merged. */
export function extendPolicy(base: PolicyInput, over: PolicyInput): Policy {
  const under = policy(base)
  const merged: PolicyInput = { ...under, ...given(over) }
  const backoff = partsOf(over.backoff)
  const kind = backoff.kind ?? under.backoff.kind
  if (kind === under.backoff.kind) return policy({ ...merged, backoff: { ...under.backoff, ...given(backoff) } })

  // A backoff that is random by itself has no jitter to take over or to leave behind.
  const isRandom = kind === 'decorrelated' || under.backoff.kind === 'decorrelated'
  return policy(isRandom ? { ...merged, jitter: over.jitter } : merged)
}

/** A backoff as an object, however it is written. */
function partsOf(backoff: PolicyInput['backoff']): BackoffInput {
  if (Array.isArray(backoff)) return { kind: 'list', delays: backoff }
  return isObject(backoff) ? backoff : { kind: backoff as BackoffInput['kind'] }
}

/** The fields that are not left undefined. */
function given<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>
}
