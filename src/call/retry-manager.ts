import { IdempotencyGuard, MemoryIdempotencyStore } from '../idempotency/index.js'
import { type Duration, extendPolicy, OptionError, type Policy, type PolicyInput } from '../policy/index.js'
import type { Sink, Work } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'
import type { Attempt } from './attempt.js'
import { CATEGORIES, type KnownCategory, UNKNOWN_CATEGORY } from './categories.js'
import { type RetryOptions, retry } from './retry.js'

/** A category: one that is known from the start, or one of the user's own. */
export type Category = KnownCategory | (string & {})

/** What a retry manager's calls share. */
export interface RetryManagerOptions {
  /** Takes the events of all its calls. */
  readonly sink?: Sink
  /** Where idempotency keys live; unless it is given, in memory, for a day. */
  readonly idempotency?: IdempotencyGuard
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock
  /** Where jitter comes from; by default, from each call's id and the attempt's number. */
  readonly random?: () => number
}

/** What a managed call may be given. */
export interface ExecuteOptions extends Omit<RetryOptions, 'name' | 'category' | 'sink' | 'clock' | 'random'> {
  /** Laid over the category's policy, field by field. */
  readonly policy?: PolicyInput
  /** The call is made once for this key; whoever comes with it again gets the same result. */
  readonly idempotencyKey?: string
  /** What the call is asked to do, as plain data: the same key with other parameters is an error. */
  readonly params?: unknown
  /** What to do about a key that is in progress elsewhere; by default, wait until the deadline. */
  readonly wait?: boolean | Duration
}

/**
 * Retries calls by category: each has a policy and a timeout, and all share a sink and the idempotency keys.
 *
 * ```ts
 * const manager = new RetryManager({ sink: memoryAudit() })
 * await manager.execute('API_REQUEST', 'charge card', ({ signal }) => charge(signal), { idempotencyKey: 'order-42' })
 * ```
 */
export class RetryManager {
  /** Where its idempotency keys live: `clear(key)` forgets one. */
  readonly idempotency: IdempotencyGuard
  private readonly categories = new Map<string, Policy>(Object.entries(CATEGORIES))

  constructor(private readonly options: RetryManagerOptions = {}) {
    const { clock, idempotency } = options
    this.idempotency =
      idempotency ?? new IdempotencyGuard({ store: new MemoryIdempotencyStore({ clock, keepFor: '24h' }), clock })
  }

  /** Gives a category its policy: a new one, or one that replaces what was there. */
  register(category: Category, policy: PolicyInput): void {
    if (!/^[A-Z][A-Z0-9_]*$/.test(category)) {
      throw new OptionError('category', `A category is written like API_REQUEST, got '${category}'.`)
    }
    this.categories.set(category, extendPolicy(UNKNOWN_CATEGORY, policy))
  }

  /** The policy of a category. One that nobody registered gets a default, and a warning the first time. */
  policyOf(category: Category): Policy {
    const known = this.categories.get(category)
    if (known !== undefined) return known
    process.emitWarning(
      `Nobody registered the retry category '${category}': it gets 3 attempts, 1s to 30s apart. ` +
        `Call register('${category}', { … }) to give it a policy of its own.`,
      { code: 'REDRIVE_UNKNOWN_CATEGORY' },
    )
    this.categories.set(category, UNKNOWN_CATEGORY)
    return UNKNOWN_CATEGORY
  }

  /** Calls a function under the policy of its category, once per idempotency key where one is given. */
  async execute<T>(
    category: Category,
    operation: string,
    fn: (attempt: Attempt) => T | PromiseLike<T>,
    options: ExecuteOptions = {},
  ): Promise<T> {
    const { policy, idempotencyKey, params, wait, ...callOptions } = options
    const base = this.policyOf(category)
    const effective = policy === undefined ? base : extendPolicy(base, policy)
    const id = options.id ?? crypto.randomUUID()
    const call = { ...callOptions, id, category, name: operation, ...this.shared() }
    if (idempotencyKey === undefined) return retry(fn, effective, call)

    const { tenantId, correlationId, traceId, context } = options
    const work: Work = { kind: 'call', id, name: operation, category, tenantId, correlationId, traceId, context }
    return this.idempotency.run(idempotencyKey, ({ signal }) => retry(fn, effective, { ...call, signal }), {
      // Nobody gets the result of another tenant or operation that happens to use the same key.
      params: { category, operation, tenantId, params },
      wait: wait ?? options.deadline,
      work,
      sink: this.options.sink,
      signal: options.signal,
    })
  }

  private shared(): Pick<RetryOptions, 'sink' | 'clock' | 'random'> {
    const { sink, clock, random } = this.options
    return { sink, clock, random }
  }
}
