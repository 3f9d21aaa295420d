import { OptionError } from '../policy/index.js'
import type { Rate } from '../store/internal.js'

/** How fast a bucket fills, and how much it holds. @inline */
export type RateInput = (
  | { readonly perSecond: number }
  | { readonly perMinute: number }
  | { readonly perHour: number }
) & {
  /** How much may start at once after a rest. Default: one second's worth, at least 1. */
  readonly burst?: number
}

const SECONDS = { perSecond: 1, perMinute: 60, perHour: 3600 } as const

/** Rates as a store takes them. `owner` is whose they are, for errors: `the stage 'llm'`. */
export function toRates(owner: string, rates: Readonly<Record<string, RateInput>>): Readonly<Record<string, Rate>> {
  return Object.fromEntries(Object.entries(rates).map(([bucket, rate]) => [bucket, toRate(owner, bucket, rate)]))
}

function toRate(owner: string, bucket: string, rate: RateInput): Rate {
  const given = Object.entries(SECONDS).flatMap(([unit, seconds]) => {
    const amount: unknown = Reflect.get(rate, unit)
    return typeof amount === 'number' ? [amount / seconds] : []
  })
  const [perSecond] = given
  if (given.length !== 1 || perSecond === undefined || !(perSecond > 0 && perSecond < Infinity)) {
    throw new OptionError(
      `rates.${bucket}`,
      `The rate '${bucket}' of ${owner} needs one of 'perSecond', 'perMinute' and 'perHour', above 0.`,
    )
  }
  return rate.burst === undefined ? { perSecond } : { perSecond, burst: rate.burst }
}
