import { OptionError } from '../../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../../policy/internal.js'
import type { Lane, LaneLimits, LaneSelection } from '../contract/lane.js'

/**
 * The ramp: after a hold a lane starts with one task, and one more may run for each attempt that ends, so the number doubles
 * with every round. Once this many may run at once, the lane is as free as before. The gate of a failure budget, while it is half
 * open, has the same ramp, on which only successes count (`budgets/gate.ts`). Lanes that share a limit learn a pace instead
 * (`shared-limit.ts`). PostgreSQL has it in `ramp_up`.
 */
export const RAMP_END = 256

/** How many tasks may run at once after one more attempt has ended; `undefined` once the ramp is over. */
export function rampedUp(ramp: number): number | undefined {
  return ramp + 1 < RAMP_END ? ramp + 1 : undefined
}

/** Limits beyond these are mistakes, and would overflow in a database. */
const [MIN_RATE, MAX_RATE] = [1e-9, 1e9]
const MAX_CONCURRENCY = 1e9

const FIELDS: KnownOptions<LaneLimits> = { concurrency: '', perSecond: '', isOrdered: '', onDead: '' }

/** Limits as a lane keeps them: the fields that were given and what follows from them. Invalid ones are an `OptionError`. */
export function checkedLimits(limits: LaneLimits): LaneLimits {
  // New limits replace the old ones, so a field that was mistyped would remove a limit.
  checkOptions('limit()', limits, FIELDS)
  const { concurrency, perSecond, isOrdered = false, onDead } = limits
  checkConcurrency(concurrency)
  if (perSecond !== undefined && !(perSecond >= MIN_RATE && perSecond <= MAX_RATE)) {
    const range = `a number from ${MIN_RATE} to ${MAX_RATE}`
    throw new OptionError('perSecond', `'perSecond' must be ${range}, got ${perSecond}: to stop a lane, pause it.`)
  }
  if (onDead !== undefined && onDead !== 'block') {
    throw new OptionError('onDead', `'onDead' of a lane must be 'block', or absent, got ${quoted(onDead)}.`)
  }
  if (onDead !== undefined && !isOrdered) {
    throw new OptionError('onDead', "'onDead' needs 'isOrdered: true': only an ordered lane can stop at a dead letter.")
  }
  const most = isOrdered ? Math.min(1, concurrency ?? 1) : concurrency
  return {
    ...(most !== undefined && { concurrency: most }),
    ...(perSecond !== undefined && { perSecond }),
    ...(isOrdered && { isOrdered }),
    ...(onDead !== undefined && { onDead }),
  }
}

export function checkConcurrency(concurrency: number | undefined): void {
  if (concurrency === undefined) return
  if (Number.isInteger(concurrency) && concurrency >= 0 && concurrency <= MAX_CONCURRENCY) return
  const range = `a whole number from 0 to ${MAX_CONCURRENCY}`
  throw new OptionError('concurrency', `'concurrency' must be ${range}, got ${quoted(concurrency)}.`)
}

/** Whether a selection names exactly one lane. */
export function isOneLane(lanes: LaneSelection): lanes is Lane {
  return lanes.category !== undefined && lanes.key !== undefined
}
