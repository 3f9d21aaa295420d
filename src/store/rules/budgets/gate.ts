import type { FailureBudget, GateCause, GateRecord } from '../../contract/budget-store.js'
import { RAMP_END } from '../lane-limits.js'
import { storableName } from '../storable-name.js'

/**
 * The rules of a failure budget's gate: when it opens, how many tasks it lets through, and when it closes. Pure, and used
 * by all stores: each counts in its own way, and asks here.
 */

/** A gate as a store keeps it. JSON. */
export interface Gate {
  /** Grows with each hold, so that the attempts of one round of probes are told from those of others. */
  readonly round: number
  /** When it opened first. Absent while it is closed. */
  readonly since?: number
  /** The end of the hold. */
  readonly until: number
  /** Holds in a row. */
  readonly holds: number
  /** How many tasks have started behind it since the hold was over, and when the last of them did. */
  readonly started: number
  readonly startedAt: number
  /** Absent while it is closed. */
  readonly cause?: GateCause
}

/** Attempts within the window. */
export interface Recent {
  readonly attempts: number
  readonly failed: number
  /** The commonest of the failures: see `failureOf`. */
  readonly failure: string
}

/** How tasks ended that an open gate has let through in its present round. */
export interface Probes {
  readonly ok: number
  readonly failed: number
  /** Ended without an answer: lost, handed back, rate-limited, or failed for reasons of the payload. */
  readonly none: number
}

export const NEW_GATE: Gate = { round: 0, until: 0, holds: 0, started: 0, startedAt: 0 }
export const NO_PROBES: Probes = { ok: 0, failed: 0, none: 0 }

/** No hold is longer, unless the first one is. */
const MAX_HOLD_MS = 600_000
/** After this long without an answer, a gate with no running tasks lets another probe through. */
const PROBE_LOST_MS = 60_000

/** The gate after settlements were counted: the same object if nothing changes. */
export function judged(
  budget: Required<FailureBudget>,
  gate: Gate,
  { recent, probes }: { readonly recent: Recent; readonly probes: Probes },
  now: number,
): Gate {
  if (gate.since === undefined) {
    const isEnough = recent.attempts >= budget.minAttempts
    return isEnough && isExceeded(budget, recent) ? opened(budget, gate, recent, now) : gate
  }
  if (gate.until > now) return gate
  const attempts = probes.ok + probes.failed
  if (isExceeded(budget, { attempts, failed: probes.failed }))
    return opened(budget, gate, { attempts, failed: probes.failed, failure: recent.failure }, now)
  const isRampOver = probes.ok + 1 >= RAMP_END
  // Where little work comes in, the ramp would take days.
  const isProven = probes.ok >= budget.minAttempts && now >= gate.until + budget.windowMs
  return isRampOver || isProven ? closed(gate) : gate
}

/** The gate after it was closed. Its next round of probes is told from earlier ones. */
export function closed({ round }: Gate): Gate {
  return { ...NEW_GATE, round }
}

/** How many more tasks may start. `isIdle` tells whether none of its tasks runs; asked only where it matters. */
export function startsLeft(gate: Gate, probes: Probes, now: number, isIdle: () => boolean): number {
  if (gate.since === undefined) return Infinity
  if (gate.until > now) return 0
  // Of the tasks that have started, no more can have ended without an answer than have given none.
  const none = Math.min(probes.none, Math.max(0, gate.started - probes.ok - probes.failed))
  const left = 1 + 2 * probes.ok + probes.failed + none - gate.started
  if (left > 0) return left
  // A probe whose end was never told must not keep the gate shut for ever.
  return now >= gate.startedAt + PROBE_LOST_MS && isIdle() ? 1 : 0
}

/** When an open gate that lets nothing through is worth asking again. */
export function nextLook(gate: Gate, now: number): number {
  if (gate.until > now) return gate.until
  // A probe that runs for longer rings when it ends. A time that is over would have every claim ask again at once.
  const lostAt = gate.startedAt + PROBE_LOST_MS
  return lostAt > now ? lostAt : now + PROBE_LOST_MS
}

/** The gate after tasks have started behind it. */
export function afterStarts(gate: Gate, count: number, now: number): Gate {
  return count === 0 ? gate : { ...gate, started: gate.started + count, startedAt: now }
}

/** Whether an attempt that began then is one of the present round. */
export function isProbe({ since, until }: Gate, began: number): boolean {
  return since !== undefined && began >= until
}

/** The gate as it is shown. */
export function gateRecord({ since, until, holds, cause }: Gate, now: number): GateRecord {
  if (since === undefined) return { state: 'closed', since, until: undefined, holds, cause: undefined }
  return { state: until > now ? 'open' : 'half_open', since, until, holds, cause }
}

function opened({ holdMs }: Required<FailureBudget>, gate: Gate, recent: Recent, now: number): Gate {
  const { attempts, failed, failure } = recent
  const until = now + Math.min(holdMs * 2 ** gate.holds, Math.max(holdMs, MAX_HOLD_MS))
  return {
    round: gate.round + 1,
    since: gate.since ?? now,
    until,
    holds: gate.holds + 1,
    started: 0,
    startedAt: until,
    cause: { ...causeOf(failure), attempts, failed },
  }
}

/** A failure, by its code and its group, as text to be counted by. PostgreSQL makes it too. */
export function failureOf(code: string | undefined, group: string | undefined): string {
  return JSON.stringify([code ?? null, group ?? null])
}

function causeOf(failure: string): Pick<GateCause, 'code' | 'group'> {
  const [code, group]: readonly (string | null)[] = failure === '' ? [null, null] : JSON.parse(failure)
  return { code: storableName(code ?? ''), ...(typeof group === 'string' && { group }) }
}

function isExceeded({ share }: FailureBudget, { attempts, failed }: Pick<Recent, 'attempts' | 'failed'>): boolean {
  return failed > share * attempts
}
