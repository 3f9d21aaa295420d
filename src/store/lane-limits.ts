import { OptionError } from '../policy/index.js'
import type { Lane, LaneLimits } from './store.js'

/** Limits as a lane keeps them: only what was said, and what follows from it. Those that cannot be are an `OptionError`. */
export function checkedLimits({ concurrency, perSecond, isOrdered = false }: LaneLimits): LaneLimits {
  if (concurrency !== undefined && !(Number.isInteger(concurrency) && concurrency >= 0))
    throw new OptionError('concurrency', `'concurrency' must be a whole number, 0 or more, got ${concurrency}.`)
  if (perSecond !== undefined && !(Number.isFinite(perSecond) && perSecond > 0))
    throw new OptionError(
      'perSecond',
      `'perSecond' must be a number above 0, got ${perSecond}: to stop a lane, pause it.`,
    )
  const most = isOrdered ? Math.min(1, concurrency ?? 1) : concurrency
  return {
    ...(most !== undefined && { concurrency: most }),
    ...(perSecond !== undefined && { perSecond }),
    ...(isOrdered && { isOrdered }),
  }
}

/** Whether one lane is meant, and no other. */
export function isOneLane(lanes: Partial<Lane> & { readonly kind: string }): lanes is Lane {
  return lanes.category !== undefined && lanes.key !== undefined
}
