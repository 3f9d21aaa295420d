import {
  advance,
  begin,
  type Duration,
  decide,
  type History,
  OptionError,
  parseDuration,
  policy,
} from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { Sink, Work } from '../telemetry/index.js'
import { emit } from '../telemetry/internal.js'
import { awaited, type Clock, systemClock, unwatchAbort, watchAbort } from '../time/index.js'
import { Doorbell } from './doorbell.js'
import { IdempotencyInProgressError, IdempotencyLeaseLostError, IdempotencyMismatchError } from './errors.js'
import { checkKey, fingerprint } from './idempotency-key.js'
import { Lease } from './lease.js'
import { type IdempotencyNews, Recorder } from './recorder.js'
import { decodeResult, encodeResult } from './result-codec.js'
import type { IdempotencyStore } from './store.js'
import { AT_ONCE, write } from './write.js'

/** The options of an `IdempotencyGuard`. @inline */
export interface IdempotencyGuardOptions {
  /** The store that keeps the keys. */
  readonly store: IdempotencyStore
  /** How long a key stays taken after its owner dies. A live owner renews its lease. Default 30 s. */
  readonly lease?: Duration | undefined
  /** The default of the option `wait` of `run`. Default `true`. */
  readonly wait?: boolean | Duration | undefined
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock | undefined
  /** The source of randomness for the jitter of waits. */
  readonly random?: (() => number) | undefined
}

const GUARD_OPTIONS: KnownOptions<IdempotencyGuardOptions> = {
  store: 'object',
  lease: '',
  wait: '',
  clock: 'object',
  random: 'function',
}

/** The options of one run. @inline */
export interface IdempotencyRunOptions {
  /** The parameters of the work, as plain data. Using the same key with other parameters is an error. */
  readonly params?: unknown
  /** Whether to wait for a key in progress: without limit (`true`), for a duration, or not at all (`false`). */
  readonly wait?: boolean | Duration | undefined
  /**
   * Ends the run at once. A running function gets the abort too, and its key is settled once the function has ended.
   */
  readonly signal?: AbortSignal | undefined
  /** Receives the work events of the run. Needs `work`. */
  readonly sink?: Sink | undefined
  /** The work that those events are about. */
  readonly work?: Work | undefined
}

const RUN_OPTIONS: KnownOptions<IdempotencyRunOptions> = {
  params: '',
  wait: '',
  signal: 'object',
  sink: 'function',
  work: 'object',
}

/** The function to run under a key. Its signal aborts when the caller aborts or another caller takes the key over. */
export type IdempotentFunction<T> = (context: { readonly signal: AbortSignal }) => T | PromiseLike<T>

/** One run, from its call to its end. */
interface Run<T> {
  readonly key: string
  readonly fingerprint: string
  readonly fn: IdempotentFunction<T>
  readonly waitMs: number
  readonly options: IdempotencyRunOptions
  /** The function's result, once it has returned. From then on it is not called again. */
  result?: { readonly value: T; readonly text: string }
  /** The polls of a key in progress so far, with their deadline. */
  polls?: History
}

const POLLING = /* @__PURE__ */ policy({
  attempts: Number.MAX_SAFE_INTEGER,
  backoff: { base: '20ms', max: '1s' },
  jitter: 'equal',
})
const IN_PROGRESS = { class: 'retryable', code: 'in_progress' } as const

/**
 * Runs work once per key. Every later or concurrent caller with the same key gets the result of that one run.
 *
 * ```ts
 * const guard = new IdempotencyGuard({ store: new MemoryIdempotencyStore() })
 * const receipt = await guard.run('order-42', () => charge(order), { params: order })
 * ```
 *
 * The caller that runs gets the function's own return value; the others get its JSON copy. A failure is not stored: it
 * releases the key, and the next caller runs the function.
 *
 * **For effects outside the store this is at least once across a crash.** If a process dies between the effect and its
 * record, or stalls for longer than its lease, the lease expires and the next caller runs the work again. Pass the key
 * on to the other service if that accepts one.
 */
export class IdempotencyGuard {
  readonly #store: IdempotencyStore
  readonly #clock: Clock
  readonly #random: () => number
  readonly #leaseMs: number
  readonly #waitMs: number
  readonly #doorbell: Doorbell
  readonly #recorder: Recorder

  constructor(options: IdempotencyGuardOptions) {
    checkOptions('An idempotency guard', options, GUARD_OPTIONS)
    const { store, lease = '30s', wait = true, clock = systemClock, random = Math.random } = options
    const leaseMs = parseDuration(lease)
    if (!leaseMs)
      throw new OptionError('lease', `'lease' must be a duration above 0 such as '30s', got ${String(lease)}.`)
    this.#store = store
    this.#leaseMs = leaseMs
    this.#waitMs = waitMsOf(wait)
    this.#clock = clock
    this.#random = random
    this.#doorbell = new Doorbell(clock)
    this.#recorder = new Recorder(store, clock, random)
  }

  /**
   * Runs the function if the key is fresh, waits if it is in progress elsewhere, and returns the stored result if it is
   * done. Rejects with the function's own failure, or with an idempotency error of `redrive/idempotency`.
   *
   * Once the function has succeeded, a store failure neither fails the caller nor runs the function again.
   */
  async run<T>(key: string, fn: IdempotentFunction<T>, options: IdempotencyRunOptions = {}): Promise<T> {
    checkKey(key)
    checkOptions('run()', options, RUN_OPTIONS)
    const waitMs = options.wait === undefined ? this.#waitMs : waitMsOf(options.wait)
    const run: Run<T> = { key, fingerprint: fingerprint(key, options.params), fn, waitMs, options }
    options.signal?.throwIfAborted()
    return untilAborted(this.#settle(run), options.signal)
  }

  /**
   * Forgets a key, so that its work can run again. This does not stop a function that is running under the key; its
   * result is still recorded unless another caller has taken the key by then.
   */
  async clear(key: string): Promise<void> {
    checkKey(key)
    await this.#store.clear(key)
    this.#recorder.forget(key)
    this.#doorbell.ring(key)
  }

  /**
   * Lets the process exit. Results that the store refused are kept and written again in the background for up to 15
   * minutes; closing tries once more and then drops them.
   */
  close(): void {
    this.#recorder.close()
  }

  async #settle<T>(run: Run<T>): Promise<T> {
    try {
      for (;;) {
        const outcome = await this.#step(run)
        if (outcome !== undefined) return outcome.value
      }
    } catch (error) {
      throw run.result === undefined ? error : new IdempotencyLeaseLostError(run.key, { cause: error })
    }
  }

  /** Claims the key and acts on its state. Resolves with `undefined` to claim again. */
  async #step<T>(run: Run<T>): Promise<{ readonly value: T } | undefined> {
    const { key, fingerprint } = run
    const claim = this.#recorder.kept(key) ?? (await this.#store.claim(key, { fingerprint, leaseMs: this.#leaseMs }))
    if (claim.state === 'fresh') return this.#own(run, claim.token)
    if (claim.fingerprint !== fingerprint) throw new IdempotencyMismatchError(key)
    if (claim.state === 'in_progress') return this.#wait(run, claim.leaseLeftMs)

    this.#teller(run.options, key)({ type: 'idempotency_hit' })
    // Trust the caller on the type: a store cannot know it.
    return { value: decodeResult(key, claim.result) as T }
  }

  async #wait<T>(run: Run<T>, leaseLeftMs: number): Promise<undefined> {
    const now = this.#clock.monotonic()
    run.polls ??= begin(now, now + run.waitMs)
    const { deadline = Infinity } = run.polls
    const leftMs = deadline - now
    if (leftMs <= 0) throw new IdempotencyInProgressError(run.key, leaseLeftMs)

    const decision = decide(POLLING, run.polls, IN_PROGRESS, { now, random: this.#random() })
    run.polls = advance(run.polls, IN_PROGRESS, decision)
    // If the next poll would come after the deadline, poll one last time at the deadline.
    const delayMs = decision.action === 'give_up' ? leftMs : decision.delayMs
    await this.#doorbell.wait(run.key, delayMs, run.options.signal)
  }

  /** Runs the function under a lease and records its result. Resolves with `undefined` if another took the key over. */
  async #own<T>(run: Run<T>, token: string): Promise<{ readonly value: T } | undefined> {
    const { key, fingerprint, fn, options } = run
    const lease = new Lease({
      renew: () => this.#store.renew(key, token, this.#leaseMs),
      leaseMs: this.#leaseMs,
      clock: this.#clock,
      lost: () => new IdempotencyLeaseLostError(key),
      caller: options.signal,
    })
    // Any later wait is a new one, for the caller that took the key over.
    run.polls = undefined
    try {
      // If the function has already run and its result was refused, record that result now: never call the function
      // twice.
      run.result ??= await perform(fn, lease.signal)
    } catch (failure) {
      lease.stop()
      await write(() => this.#store.release(key, token), AT_ONCE, { clock: this.#clock, random: this.#random })
      this.#doorbell.ring(key)
      // Whatever a function does after its key was taken over says nothing about its work.
      throw lease.isLost ? lease.signal.reason : failure
    }
    const { text } = run.result
    const tell = this.#teller(options, key)
    const counts = await this.#recorder.record({ key, fingerprint, token, text, lease, tell })
    this.#doorbell.ring(key)
    return counts ? run.result : undefined
  }

  #teller({ sink, work }: IdempotencyRunOptions, key: string): (news: IdempotencyNews) => void {
    if (sink === undefined || work === undefined) return () => {}
    return news => emit(sink, { ...news, work, at: this.#clock.now(), key })
  }
}

async function perform<T>(fn: IdempotentFunction<T>, signal: AbortSignal): Promise<{ value: T; text: string }> {
  signal.throwIfAborted()
  const value = await fn({ signal })
  return { value, text: encodeResult(value) }
}

/**
 * Settles with the work, or at once when the signal aborts; the work then ends by itself. A nested run, under the
 * signal of another run, always settles with its work, so that the outer run ends after it. Only the outer caller
 * returns at once.
 */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined || signal.aborted) return work
  return new Promise((resolve, reject) => {
    const onAbort = { wake: () => awaited.has(signal) || reject(signal.reason) }
    watchAbort(signal, onAbort)
    work.then(resolve, reject).finally(() => unwatchAbort(signal, onAbort))
  })
}

function waitMsOf(wait: boolean | Duration): number {
  if (typeof wait === 'boolean') return wait ? Infinity : 0
  const ms = parseDuration(wait)
  if (ms === undefined)
    throw new OptionError('wait', `'wait' must be true, false or a duration such as '5s', got ${String(wait)}.`)
  return ms
}
