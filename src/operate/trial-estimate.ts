import { binomialInterval, type Interval } from './binomial-interval.js'

/** The result of a trial: one entry per item of the sample. */
export interface TrialItem {
  readonly isDead: boolean
  /** Attempts over all stages, deferrals included: every one of them called the stage's function. */
  readonly calls: number
  readonly retries: number
}

/** The trial as a whole. */
export interface Trial {
  readonly items: readonly TrialItem[]
  readonly durationMs: number
  /** The number of items of the whole source; `undefined` if it is not known. */
  readonly total: number | undefined
  /** The slowest rate that is set for a stage, in items per second. */
  readonly perSecond?: number
}

/** An estimate for the whole run, with 95 % confidence. */
export interface TrialEstimate {
  readonly sampled: number
  /** The number of items that the figures below are for. */
  readonly total: number
  readonly dead: Expectation
  /** Share of dead items. */
  readonly deadRate: Interval
  readonly calls: Expectation
  readonly retries: Expectation
  /** How long the whole takes at the pace of the sample; longer if the service throttles. */
  readonly durationMs: number
  /** Whether a configured rate sets the duration. */
  readonly isPaced: boolean
}

/** An expected number, and the bounds that it lies within. */
export interface Expectation extends Interval {
  readonly expected: number
}

/** The quantile of the normal distribution for 95 %. */
const Z = 1.96

/** Figures are for this many items where the total is not known. */
const PER_ITEMS = 1000

/** Projects a trial onto the whole source. */
export function estimate({ items, durationMs, total: known, perSecond }: Trial): TrialEstimate {
  const sampled = items.length
  const total = known ?? PER_ITEMS
  const dead = items.filter(({ isDead }) => isDead).length
  const deadRate = binomialInterval(dead, sampled)
  const measuredMs = sampled === 0 ? 0 : (durationMs / sampled) * total
  const pacedMs = perSecond === undefined ? 0 : (total / perSecond) * 1000
  return {
    sampled,
    total,
    dead: {
      expected: sampled === 0 ? 0 : Math.round((dead / sampled) * total),
      low: Math.floor(deadRate.low * total),
      high: Math.ceil(deadRate.high * total),
    },
    deadRate,
    calls: ofWhole(
      items.map(({ calls }) => calls),
      total,
    ),
    retries: ofWhole(
      items.map(({ retries }) => retries),
      total,
    ),
    durationMs: Math.max(measuredMs, pacedMs),
    isPaced: pacedMs > measuredMs,
  }
}

/**
 * The sum over the whole, from the mean of the sample and its standard error. Where all items of the sample are alike, that
 * would be zero: then as many items may differ by one as the sample can have missed.
 */
function ofWhole(values: readonly number[], total: number): Expectation {
  const count = values.length
  if (count === 0) return { expected: 0, low: 0, high: Infinity }
  const sum = values.reduce((a, b) => a + b, 0)
  const mean = sum / count
  const variance = count < 2 ? 0 : values.reduce((a, value) => a + (value - mean) ** 2, 0) / (count - 1)
  const error = (variance === 0 ? binomialInterval(0, count).high : Z * Math.sqrt(variance / count)) * total
  // The whole run has at least as many as its sample had.
  return {
    expected: Math.round(mean * total),
    low: Math.max(sum, Math.floor(mean * total - error)),
    high: Math.ceil(mean * total + error),
  }
}
