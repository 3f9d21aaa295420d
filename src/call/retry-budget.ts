import { OptionError } from '../policy/index.js'
import { namedInstances } from './named-instances.js'

/** How many retries a retry budget allows. */
export interface RetryBudgetOptions {
  /** Retries per call: 0.1 lets one retry follow ten calls. Default 0.1. */
  readonly ratio?: number
  /** Retries per second that are allowed in any case, for services with few calls. Default 10. */
  readonly minPerSecond?: number
  /** The most retries that can be saved up. Default 100. */
  readonly max?: number
}

/** Ten tenths are a little less than one, as numbers go. */
const ONE = 1 - 1e-9

/**
 * Bounds the retries of all the calls that share it, so that an outage is not answered with a multiple of the load.
 * A token bucket: calls and time put tokens in, each retry takes one out.
 */
export class RetryBudget {
  readonly name: string
  private readonly ratio: number
  private readonly minPerSecond: number
  private readonly max: number
  private tokens: number
  private refilledAt: number | undefined

  constructor(name: string, { ratio = 0.1, minPerSecond = 10, max = 100 }: RetryBudgetOptions = {}) {
    this.name = name
    this.ratio = atLeast('ratio', ratio, 0)
    this.minPerSecond = atLeast('minPerSecond', minPerSecond, 0)
    this.max = atLeast('max', max, 1)
    this.tokens = this.max
  }

  /** A call was made. */
  deposit(): void {
    this.add(this.ratio)
  }

  /** Whether a retry is too much now. Times are on the monotonic scale of the callers' clock. */
  isEmpty(now: number): boolean {
    const elapsedMs = now - (this.refilledAt ?? now)
    this.refilledAt = now
    if (elapsedMs > 0) this.add((elapsedMs / 1000) * this.minPerSecond)
    return this.tokens < ONE
  }

  /** A retry was scheduled. */
  withdraw(): void {
    this.tokens -= 1
  }

  private add(tokens: number): void {
    this.tokens = Math.min(this.max, this.tokens + tokens)
  }
}

/** The budget of this name; every call that names it shares it. The first call may set its options. */
export const retryBudget = /* @__PURE__ */ namedInstances(
  'retry budget',
  (name: string, options?: RetryBudgetOptions) => new RetryBudget(name, options),
)

function atLeast(option: string, value: number, min: number): number {
  if (!(value >= min && value < Infinity)) {
    throw new OptionError(option, `Retry budget: '${option}' must be a number, ${min} or more, got ${value}.`)
  }
  return value
}
