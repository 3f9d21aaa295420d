import { OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import { namedInstances } from './named-instances.js'

/** Limits of a retry budget. @inline */
export interface RetryBudgetOptions {
  /** Retries earned per call: with 0.1, ten calls earn one retry. Default 0.1. */
  readonly ratio?: number | undefined
  /** Retries per second allowed regardless of traffic, for services with few calls. Default 10. */
  readonly minPerSecond?: number | undefined
  /** The maximum number of retries that can be saved up. Default 100. */
  readonly max?: number | undefined
}

const BUDGET_OPTIONS: KnownOptions<RetryBudgetOptions> = { ratio: '', minPerSecond: '', max: '' }

/** Ten deposits of 0.1 add up to slightly less than 1 in floating point. */
const ONE = 1 - 1e-9

/**
 * Limits the retries of all calls that share it, so that retries cannot multiply the load during an outage.
 * It is a token bucket: calls and time add tokens, and each retry takes one.
 */
export class RetryBudget {
  /** Its name, for errors and telemetry. */
  readonly name: string
  readonly #ratio: number
  readonly #minPerSecond: number
  readonly #max: number
  #tokens: number
  #refilledAt: number | undefined

  constructor(name: string, options: RetryBudgetOptions = {}) {
    checkOptions('A retry budget', options, BUDGET_OPTIONS)
    const { ratio = 0.1, minPerSecond = 10, max = 100 } = options
    this.name = name
    this.#ratio = atLeast('ratio', ratio, 0)
    this.#minPerSecond = atLeast('minPerSecond', minPerSecond, 0)
    this.#max = atLeast('max', max, 1)
    this.#tokens = this.#max
  }

  /** Records a call. */
  deposit(): void {
    this.#add(this.#ratio)
  }

  /** Whether no retry is allowed now. `now` is monotonic time of the caller's clock. */
  isEmpty(now: number): boolean {
    const elapsedMs = now - (this.#refilledAt ?? now)
    this.#refilledAt = now
    if (elapsedMs > 0) this.#add((elapsedMs / 1000) * this.#minPerSecond)
    return this.#tokens < ONE
  }

  /** Records a scheduled retry. */
  withdraw(): void {
    this.#tokens -= 1
  }

  #add(tokens: number): void {
    this.#tokens = Math.min(this.#max, this.#tokens + tokens)
  }
}

/** Returns the budget with this name. All calls that name it share it; the first may set its options. */
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
