import { IdempotencyGuard, MemoryIdempotencyStore } from '../idempotency/index.js'
import { type Duration, extendPolicy, OptionError, type Policy, type PolicyInput, policy } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { Sink, Work } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'
import type { Attempt } from './attempt.js'
import { RETRY_OPTIONS, type RetryOptions, retry } from './retry.js'

/** Options shared by all calls of a retry manager. @inline */
export interface RetryManagerOptions {
  /** The policy of each category, as `register` takes it. Default: none. `redrive/presets` has a set of 17. */
  readonly categories?: Readonly<Record<string, PolicyInput>> | undefined
  /** Receives the work events of every call. */
  readonly sink?: Sink | undefined
  /** Stores idempotency keys. Default: in memory, for a day. */
  readonly idempotency?: IdempotencyGuard | undefined
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock | undefined
  /** The source of jitter. Default: derived from the call's id and the attempt's number. */
  readonly random?: (() => number) | undefined
}

/** Options of one managed call. @inline */
export interface ExecuteOptions extends Omit<RetryOptions, 'name' | 'category' | 'sink' | 'clock' | 'random'> {
  /** Overrides the category's policy, field by field. */
  readonly policy?: PolicyInput | undefined
  /** Runs the call once per key; later calls with the same key get the same result. */
  readonly idempotencyKey?: string | undefined
  /** The call's parameters, as plain data. Reusing a key with other parameters is an error. */
  readonly params?: unknown
  /** Whether, or how long, to wait for a key that is in progress elsewhere. Default: until the deadline. */
  readonly wait?: boolean | Duration | undefined
}

const MANAGER_OPTIONS: KnownOptions<RetryManagerOptions> = {
  categories: 'object',
  sink: 'function',
  idempotency: 'object',
  clock: 'object',
  random: 'function',
}

const { name: _name, category: _category, sink: _sink, clock: _clock, random: _random, ...CALL_OPTIONS } = RETRY_OPTIONS
const EXECUTE_OPTIONS: KnownOptions<ExecuteOptions> = {
  policy: 'object',
  idempotencyKey: '',
  params: '',
  wait: '',
  ...CALL_OPTIONS,
}

/** The policy of an unknown category, and the base of those that are registered. */
const DEFAULT: Policy = /* @__PURE__ */ policy({
  attempts: 3,
  backoff: { base: '1s', factor: 2, max: '30s' },
  jitter: { kind: 'proportional', ratio: 0.1 },
  timeout: '30s',
  retryOn: 'all',
})

/**
 * Retries calls by category. Each category has its own policy and timeout; all share one sink and one set of
 * idempotency keys.
 *
 * ```ts
 * const manager = new RetryManager({ categories: { PAYMENT: { attempts: 4, timeout: '5s' } } })
 * await manager.execute('PAYMENT', 'charge card', ({ signal }) => charge(signal), { idempotencyKey: 'order-42' })
 * ```
 */
export class RetryManager {
  /** The guard that holds the idempotency keys. `clear(key)` forgets one. */
  readonly idempotency: IdempotencyGuard
  readonly #categories = new Map<string, Policy>()
  readonly #shared: Pick<RetryOptions, 'sink' | 'clock' | 'random'>

  constructor(options: RetryManagerOptions = {}) {
    checkOptions('A retry manager', options, MANAGER_OPTIONS)
    const { categories = {}, sink, idempotency, clock, random } = options
    this.#shared = { sink, clock, random }
    this.idempotency =
      idempotency ?? new IdempotencyGuard({ store: new MemoryIdempotencyStore({ clock, keepFor: '24h' }), clock })
    for (const [category, policy] of Object.entries(categories)) this.register(category, policy)
  }

  /**
   * Registers a category, or replaces its policy. Missing fields get the defaults: 3 attempts, backoff from 1 s to 30
   * s. Here and everywhere, a category may also be named by its code, such as `RETRY_API_REQUEST`.
   */
  register(category: string, policy: PolicyInput): void {
    if (!/^[A-Z][A-Z0-9_]*$/.test(category)) {
      throw new OptionError('category', `A category is written like API_REQUEST, got '${category}'.`)
    }
    this.#categories.set(withoutPrefix(category), extendPolicy(DEFAULT, policy))
  }

  /** Returns the category's policy. An unknown category gets the default policy, with a warning the first time. */
  policyOf(named: string): Policy {
    const category = withoutPrefix(named)
    const known = this.#categories.get(category)
    if (known !== undefined) return known
    process.emitWarning(
      `The retry category '${category}' is unknown: it gets 3 attempts, 1s to 30s apart. ` +
        `Call register('${category}', { … }) or pass it in 'categories' to set its policy.`,
      { code: 'REDRIVE_UNKNOWN_CATEGORY' },
    )
    this.#categories.set(category, DEFAULT)
    return DEFAULT
  }

  /** Calls a function under its category's policy, once per idempotency key if one is given. */
  async execute<T>(
    named: string,
    operation: string,
    fn: (attempt: Attempt) => T | PromiseLike<T>,
    options: ExecuteOptions = {},
  ): Promise<T> {
    checkOptions('execute()', options, EXECUTE_OPTIONS)
    const { policy, idempotencyKey, params, wait, ...callOptions } = options
    const category = withoutPrefix(named)
    const base = this.policyOf(category)
    const effective = policy === undefined ? base : extendPolicy(base, policy)
    const id = options.id ?? crypto.randomUUID()
    const call = { ...callOptions, id, category, name: operation, ...this.#shared }
    if (idempotencyKey === undefined) return retry(fn, effective, call)

    const { tenantId, correlationId, traceId, context } = options
    const work: Work = { kind: 'call', id, name: operation, category, tenantId, correlationId, traceId, context }
    return this.idempotency.run(idempotencyKey, ({ signal }) => retry(fn, effective, { ...call, signal }), {
      // A tenant or operation that happens to use the same key must not receive another's result.
      params: { category, operation, tenantId, params },
      wait: wait ?? options.deadline,
      work,
      sink: this.#shared.sink,
      signal: options.signal,
    })
  }
}

/** A category by its code, `RETRY_KV_GET`, is the category `KV_GET`. */
function withoutPrefix(category: string): string {
  return category.replace(/^RETRY_(?=.)/, '')
}
