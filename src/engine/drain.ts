import { type Duration, OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { Claim, ClaimedTask, Outcome } from '../store/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'
import { toMs } from './to-ms.js'

/** Options of `worker.drain()`. @inline */
export interface DrainOptions {
  /** When it stops claiming, counted from the call. Running tasks then have the grace period to end. Default: none. */
  readonly deadline?: Duration | undefined
  /** The number of tasks to claim. It waits for them to end. Default: no limit. */
  readonly max?: number | undefined
}

/** The result of a drain. */
export interface DrainResult {
  /** Attempts that it made, whatever came of them. */
  readonly ran: number
  /** Attempts that succeeded, or had nothing to do. */
  readonly succeeded: number
  /** Attempts that failed: their tasks are retried later, or are dead. */
  readonly failed: number
  /** Tasks that became dead letters. */
  readonly dead: number
  /** Why it ended: nothing was due any more, the deadline came, it had claimed `max` tasks, or somebody stopped the worker. */
  readonly ended: 'empty' | 'deadline' | 'max' | 'stopped'
}

const DRAIN_OPTIONS: KnownOptions<DrainOptions> = { deadline: '', max: '' }

/**
 * Work that becomes due this soon after the last task counts as due: the next start that a rate allows, a task that another
 * claim has locked for a moment. It never waits longer than this for nothing, since other kinds may be due all the time.
 */
const SOON_MS = 1000

/** Decides when an engine that drains a store has nothing left to do, and counts what it has done. */
export class Drain implements Sleeper {
  /** Resolves when nothing more may be claimed. */
  readonly over: Promise<DrainResult['ended']>
  readonly #clock: Clock
  readonly #max: number
  readonly #timer: Timer | undefined
  readonly #counts = { ran: 0, succeeded: 0, failed: 0, dead: 0 }
  #end: (ended: DrainResult['ended']) => void = () => {}
  #claimed = 0
  #idleSince: number | undefined

  constructor(options: DrainOptions, clock: Clock) {
    checkOptions('drain()', options, DRAIN_OPTIONS)
    const { deadline, max = Infinity } = options
    if (max !== Infinity && !(Number.isInteger(max) && max >= 1))
      throw new OptionError('max', `'max' must be a whole number, 1 or more, got ${max}.`)
    this.#clock = clock
    this.#max = max
    this.over = new Promise(resolve => {
      this.#end = resolve
    })
    if (deadline !== undefined) this.#timer = clock.setTimer(this, toMs('deadline', deadline))
  }

  /** The number of tasks that it may still claim. */
  get places(): number {
    return this.#max - this.#claimed
  }

  /** The deadline has come. */
  wake(): void {
    this.#end('deadline')
  }

  /** Everything that was claimed has ended, and is on record. */
  quiet(): void {
    if (this.places === 0) this.#end('max')
  }

  /** Takes the answer to a claim. `wasQuiet`: when it was sent, nothing was running, and everything was on record. */
  answered({ tasks, now, nextAt = Infinity }: Claim, wasQuiet: boolean): void {
    // The decision on a lost attempt is no run yet.
    for (const { isUndecided } of tasks) if (!isUndecided) this.#claimed++
    if (tasks.length > 0 || !wasQuiet) {
      this.#idleSince = undefined
      return
    }
    this.#idleSince ??= this.#clock.monotonic()
    const leftMs = SOON_MS - (this.#clock.monotonic() - this.#idleSince)
    if (Math.max(0, nextAt - now) >= leftMs) this.#end('empty')
  }

  /** Counts the end of an attempt. */
  settled({ isUndecided }: ClaimedTask, { type }: Outcome): void {
    if (type === 'released' || (isUndecided && type === 'retry')) return
    this.#counts.ran++
    if (type === 'succeeded' || type === 'skipped' || type === 'advanced') this.#counts.succeeded++
    if (type === 'retry' || type === 'deferred' || type === 'dead') this.#counts.failed++
    if (type === 'dead') this.#counts.dead++
  }

  /** What it has done. */
  result(ended: DrainResult['ended']): DrainResult {
    return { ...this.#counts, ended }
  }

  /** Ends its timer. */
  close(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
  }
}
