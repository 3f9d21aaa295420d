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

/** How a guard keeps its keys and waits for those of others. */
export interface IdempotencyGuardOptions {
  /** Where the keys live. */
  readonly store: IdempotencyStore
  /** How long a key outlives an owner that died. While its function runs, the owner renews it. Default 30 s. */
  readonly lease?: Duration
  /** What `run` does about a key in progress, unless it says so itself. Default `true`. */
  readonly wait?: boolean | Duration
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock
  /** Where the jitter of waits comes from. */
  readonly random?: () => number
}

/** What a run may be given besides its key and its function. */
export interface IdempotencyRunOptions {
  /** What the work is asked to do, as plain data. The same key with other parameters is an error. */
  readonly params?: unknown
  /** Of a key in progress: wait for as long as it takes (`true`), for so long, or not at all (`false`). */
  readonly wait?: boolean | Duration
  /** Ends the run at once. A function that is running sees it, and its key is settled once it has ended. */
  readonly signal?: AbortSignal
  /** Takes the work events of the run. Needs `work`. */
  readonly sink?: Sink
  /** The work that these are about. */
  readonly work?: Work
}

/** What is run under a key. The signal aborts when the caller aborts, or when another takes the key over. */
export type IdempotentFunction<T> = (context: { readonly signal: AbortSignal }) => T | PromiseLike<T>

/** One run, from its call to its end. */
interface Run<T> {
  readonly key: string
  readonly fingerprint: string
  readonly fn: IdempotentFunction<T>
  readonly waitMs: number
  readonly options: IdempotencyRunOptions
  /** What the function returned, once it has: from then on it is not called again. */
  result?: { readonly value: T; readonly text: string }
  /** How often it has asked for a key in progress, and until when it will. */
  polls?: History
}

const POLLING = /* @__PURE__ */ policy({
  attempts: Number.MAX_SAFE_INTEGER,
  backoff: { base: '20ms', max: '1s' },
  jitter: 'equal',
})
const IN_PROGRESS = { class: 'retryable', code: 'in_progress' } as const

/**
 * Runs work once per key: whoever comes with the same key later, or at the same time, gets the result of that one run.
 *
 * ```ts
 * const guard = new IdempotencyGuard({ store: new MemoryIdempotencyStore() })
 * const receipt = await guard.run('order-42', () => charge(order), { params: order })
 * ```
 *
 * The one who runs gets what the function returned; the others get what JSON makes of it. A failure is not stored: it
 * releases the key, and the next caller runs.
 *
 * **For effects outside the store this is at least once across a crash.** A process that dies between the effect and
 * the record of it leaves a key whose lease runs out, and the next caller runs the work again; so does one that stands
 * still for longer than its lease. Pass the key on to the other side where it takes one.
 */
export class IdempotencyGuard {
  readonly #store: IdempotencyStore
  readonly #clock: Clock
  readonly #random: () => number
  readonly #leaseMs: number
  readonly #waitMs: number
  readonly #doorbell: Doorbell
  readonly #recorder: Recorder

  constructor({
    store,
    lease = '30s',
    wait = true,
    clock = systemClock,
    random = Math.random,
  }: IdempotencyGuardOptions) {
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
   * done. Rejects with the function's own failure, or with one of the errors of this folder.
   *
   * Once the function has succeeded, trouble with the store neither fails the caller nor runs the function again.
   */
  async run<T>(key: string, fn: IdempotentFunction<T>, options: IdempotencyRunOptions = {}): Promise<T> {
    checkKey(key)
    const waitMs = options.wait === undefined ? this.#waitMs : waitMsOf(options.wait)
    const run: Run<T> = { key, fingerprint: fingerprint(key, options.params), fn, waitMs, options }
    options.signal?.throwIfAborted()
    return untilAborted(this.#settle(run), options.signal)
  }

  /**
   * Forgets a key, so that its work can be run again. A function that is running under it is not stopped, and its result
   * is still recorded unless another has taken the key by then.
   */
  async clear(key: string): Promise<void> {
    checkKey(key)
    await this.#store.clear(key)
    this.#recorder.forget(key)
    this.#doorbell.ring(key)
  }

  /**
   * Lets the process end: results that the store did not take are kept, and written again in the background, for up to a
   * quarter of an hour. This tries one last time and gives them up.
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

  /** Claims the key and does what follows from that. `undefined`: look again. */
  async #step<T>(run: Run<T>): Promise<{ readonly value: T } | undefined> {
    const { key, fingerprint } = run
    const claim = this.#recorder.kept(key) ?? (await this.#store.claim(key, { fingerprint, leaseMs: this.#leaseMs }))
    if (claim.state === 'fresh') return this.#own(run, claim.token)
    if (claim.fingerprint !== fingerprint) throw new IdempotencyMismatchError(key)
    if (claim.state === 'in_progress') return this.#wait(run, claim.leaseLeftMs)

    this.#teller(run.options, key)({ type: 'idempotency_hit' })
    // The caller says what its key stands for: a store cannot know types.
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
    // When the next poll would come too late, the last one comes just in time.
    const delayMs = decision.action === 'give_up' ? leftMs : decision.delayMs
    await this.#doorbell.wait(run.key, delayMs, run.options.signal)
  }

  /** Runs the function under a lease and records its result. `undefined`: another took the key over meanwhile. */
  async #own<T>(run: Run<T>, token: string): Promise<{ readonly value: T } | undefined> {
    const { key, fingerprint, fn, options } = run
    const lease = new Lease({
      renew: () => this.#store.renew(key, token, this.#leaseMs),
      leaseMs: this.#leaseMs,
      clock: this.#clock,
      lost: () => new IdempotencyLeaseLostError(key),
      caller: options.signal,
    })
    // From here on it would wait anew: for the one who took the key from it.
    run.polls = undefined
    try {
      // A result that was refused, under a key that is free again, is recorded now: the function is not called twice.
      run.result ??= await perform(fn, lease.signal)
    } catch (failure) {
      lease.stop()
      await write(() => this.#store.release(key, token), AT_ONCE, { clock: this.#clock, random: this.#random })
      this.#doorbell.ring(key)
      throw failure
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
 * Settles with the work, or at once when the signal aborts; the work then ends by itself. Under the signal of another run,
 * whose own caller is not kept waiting, it settles with the work alone, so that the other run ends after it.
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
