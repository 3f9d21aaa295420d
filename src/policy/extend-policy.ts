import { policy } from './parse.js'
import type { Policy, PolicyInput } from './policy.js'

/** Lays one policy over another, field by field; a backoff of the same kind, part by part. */
export function extendPolicy(base: PolicyInput, over: PolicyInput): Policy {
  const under = policy(base)
  const merged: PolicyInput = { ...under, ...given(over) }
  const backoff = typeof over.backoff === 'object' && over.backoff !== null ? over.backoff : { kind: over.backoff }
  const kind = backoff.kind ?? under.backoff.kind
  if (kind === under.backoff.kind) return policy({ ...merged, backoff: { ...under.backoff, ...given(backoff) } })

  // A backoff that is random by itself has no jitter to take over or to leave behind.
  const isRandom = kind === 'decorrelated' || under.backoff.kind === 'decorrelated'
  return policy(isRandom ? { ...merged, jitter: over.jitter } : merged)
}

/** The fields that are not left undefined. */
function given<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>
}
