import { policy } from './parse.js'
import type { Policy, PolicyInput } from './policy.js'

/** Lays one policy over another, field by field; a backoff of the same kind, part by part. */
export function extendPolicy(base: PolicyInput, over: PolicyInput): Policy {
  const given = Object.fromEntries(Object.entries(over).filter(([, value]) => value !== undefined))
  const backoff = extendBackoff(base.backoff, over.backoff)
  const merged: PolicyInput = { ...base, ...given, backoff }
  // A backoff that is random by itself replaces the jitter that it is laid over.
  if (kindOf(backoff) === 'decorrelated' && over.jitter === undefined) merged.jitter = undefined
  return policy(merged)
}

function extendBackoff(base: PolicyInput['backoff'], over: PolicyInput['backoff']): PolicyInput['backoff'] {
  if (over === undefined) return base
  if (typeof base !== 'object' || typeof over !== 'object') return over
  return (over.kind ?? base.kind) === base.kind ? { ...base, ...over } : over
}

function kindOf(backoff: PolicyInput['backoff']): string | undefined {
  return typeof backoff === 'object' ? backoff.kind : backoff
}
