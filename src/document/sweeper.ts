import type { Bus } from '../bus/index.js'
import { type Duration, OptionError, parseDuration } from '../policy/index.js'
import { checkOptions, DURATION, isObject, type KnownOptions, mustBe } from '../policy/internal.js'
import type { Store } from '../store/index.js'
import { contractOf, type StoreContract } from '../store/internal.js'
import type { Sink, WorkEvent } from '../telemetry/index.js'
import { type CollectionReport, emit } from '../telemetry/internal.js'

import { type Clock, sleep, systemClock } from '../time/index.js'
import { type Collection, type CollectionOptions, collectionOf, type SharedSettings } from './collection.js'
import { type Coverage, type CoverageOptions, checkCoverage, coverageOf } from './coverage.js'
import { reconcileLetters } from './letters.js'
import type { DocumentSource } from './source.js'
import { sweepCollection } from './sweep-collection.js'
import type { SweepContext } from './sweep-context.js'
import { takeOverResets } from './take-over.js'

/** Options of `sweeper`. */
export interface SweeperOptions extends SharedSettings {
  /** Where the documents are. A function opens it when the first sweep needs it, and again after that failed. */
  readonly source: DocumentSource | (() => Promise<DocumentSource>)
  /** Where their events go. A function opens it when the first sweep needs it, and again after that failed; a dry run does not. */
  readonly bus: Bus | (() => Promise<Bus>)
  /** The collections to sweep. */
  readonly collections: readonly CollectionOptions[]
  /** Documents that should have a derived document: `expect` makes them. */
  readonly coverage?: readonly CoverageOptions[]
  /** Records a dead letter for each failed document, and knows the lanes of collections. */
  readonly store?: Store
  /** The time between two sweeps. Default 15 m. */
  readonly interval?: Duration
  /** How many documents are read, updated and published at a time. Default 500. */
  readonly pageSize?: number
  /** Receives the work events. */
  readonly sink?: Sink
  /** The source of time between sweeps. The documents' times are those of the database. Default: the system clock. */
  readonly clock?: Clock
}

/**
 * The options of a sweeper that do not depend on where it runs. Annotate the default export of a file for
 * `redrive sweep --config` with it: `satisfies SweeperSettings`.
 */
export type SweeperSettings = Pick<SweeperOptions, 'collections' | 'coverage' | 'interval' | 'policy' | 'stuckAfter'>

const SWEEPER: KnownOptions<SweeperOptions> = {
  source: '',
  bus: '',
  collections: '',
  coverage: '',
  store: '',
  interval: '',
  pageSize: '',
  policy: '',
  stuckAfter: '',
  sink: 'function',
  clock: 'object',
}
const SWEEP: KnownOptions<SweepOptions> = { dryRun: '', confirm: '' }

/** Options of one sweep. */
export interface SweepOptions {
  /** Counts what would be done, and does nothing. Needs no bus: a function that opens it is not called. */
  readonly dryRun?: boolean
  /** Sends all stuck documents, however many. */
  readonly confirm?: boolean
}

/** The result of a sweep. */
export interface SweepReport {
  /** One report per collection. */
  readonly collections: readonly CollectionReport[]
  /** How long the sweep took. */
  readonly durationMs: number
  /** Whether it only counted. */
  readonly isDryRun: boolean
  /** Why the sweep failed as a whole: the source or the bus could not be reached. */
  readonly failure?: unknown
}

/**
 * Creates a sweeper: it finds the stuck documents of your collections, requeues those that are due and marks those that
 * have used up their attempts.
 *
 * ```ts
 * const sweeps = sweeper({ source, bus, collections: [archives] })
 * sweeps.start()
 * ```
 */
export function sweeper(options: SweeperOptions): Sweeper {
  return new Sweeper(options)
}

/** Sweeps collections, once or again and again. */
export class Sweeper {
  /** The collections with all their settings. */
  readonly collections: readonly Collection[]
  readonly #sink: Sink | undefined
  readonly #store: StoreContract | undefined
  readonly #coverage: readonly Coverage[]
  readonly #clock: Clock
  readonly #intervalMs: number
  readonly #pageSize: number
  readonly #source: () => Promise<DocumentSource>
  readonly #bus: () => Promise<Bus>
  readonly #stopping = new AbortController()
  #loop: Promise<void> | undefined
  #takingOver: Promise<void> | undefined

  constructor(options: SweeperOptions) {
    checkOptions('sweeper()', options, SWEEPER)
    const { collections, coverage = [], source, bus, store, interval = '15m', pageSize = 500, clock } = options
    this.#sink = options.sink
    this.#store = store === undefined ? undefined : contractOf(store)
    for (const [name, value] of Object.entries({ source, bus })) {
      if (!isObject(value) && typeof value !== 'function')
        throw new OptionError(name, mustBe(name, `a ${name}, or a function that opens one`, value))
    }
    for (const [name, value] of Object.entries({ collections, coverage })) {
      if (!Array.isArray(value)) throw new OptionError(name, mustBe(name, 'a list', value))
    }
    this.collections = collections.map(collection => collectionOf(collection, options))
    this.#coverage = coverage.map(entry => coverageOf(entry, this.collections))
    this.#clock = clock ?? systemClock
    this.#intervalMs = intervalOf(interval)
    this.#pageSize = pageSizeOf(pageSize)
    this.#source = once(source)
    this.#bus = once(bus)
    checkCollections(this.collections, store)
  }

  /** Sweeps every collection once. A collection that fails does not keep the others from being swept. */
  async sweep(options: SweepOptions = {}): Promise<SweepReport> {
    checkOptions('sweep()', options, SWEEP)
    const { dryRun: isDryRun = false, confirm: isConfirmed = false } = options
    const startedAt = this.#clock.monotonic()
    const collections: CollectionReport[] = []
    let failure: unknown
    try {
      const [source, bus] = await Promise.all([this.#source(), isDryRun ? undefined : this.#bus()])
      // The one question whose failure is the whole sweep's: it tells whether the database answers.
      await source.now()
      const [store, sink, { signal }] = [this.#store, this.#sink, this.#stopping]
      const surroundings = { source, store, sink, pageSize: this.#pageSize, isConfirmed, signal }
      const context: SweepContext =
        bus === undefined ? { ...surroundings, isDryRun: true } : { ...surroundings, isDryRun: false, bus }
      // A store that is down makes the sweep a failure, and does not keep documents from being requeued.
      if (store !== undefined && !isDryRun)
        failure = await reconcileLetters(store, source, this.collections).then(nothing, reasonOf)
      for (const collection of this.collections) {
        if (signal.aborted) break
        const report = await sweepCollection(collection, context)
        collections.push(report)
        this.#emit({ type: 'collection_swept', work: WORK(collection.name), at: this.#clock.now(), report, isDryRun })
      }
      if (!isDryRun) await this.#checkCoverage(source)
    } catch (error) {
      failure = reasonOf(error)
    }
    const durationMs = this.#clock.monotonic() - startedAt
    this.#emit({ type: 'sweep_ended', work: WORK('sweep'), at: this.#clock.now(), durationMs, isDryRun, failure })
    return { collections, durationMs, isDryRun, failure }
  }

  /** Sweeps at once, and then at every interval, until it is stopped. A sweep that fails is made again at the next one. */
  start(): void {
    this.#loop ??= this.#run()
    if (this.#store !== undefined) this.#takingOver ??= this.#takeOver(this.#store)
  }

  /** Stops after the page that is being swept: what was updated is published. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#loop
    await this.#takingOver
  }

  #takeOver(store: StoreContract): Promise<void> {
    const { collections } = this
    const { signal } = this.#stopping
    return takeOverResets({ store, source: this.#source, collections, clock: this.#clock, signal })
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      await this.sweep()
      await sleep(this.#intervalMs, this.#clock, signal).catch(() => {})
    }
  }

  async #checkCoverage(source: DocumentSource): Promise<void> {
    for (const coverage of this.#coverage) {
      const now = this.#clock.monotonic()
      if (this.#stopping.signal.aborted) return
      if (!coverage.isDue(now)) continue
      const checked = await checkCoverage(coverage, source, this.#pageSize, this.#stopping.signal)
      const { from, unless } = coverage
      this.#emit({
        type: 'coverage_checked',
        work: WORK(`${from.name} ${unless}`),
        at: this.#clock.now(),
        from: from.name,
        unless,
        ...checked,
      })
    }
  }

  #emit(event: WorkEvent): void {
    if (this.#sink !== undefined) emit(this.#sink, event)
  }
}

const nothing = () => undefined
const reasonOf = (error: unknown) => error ?? new Error('The sweep failed.')
const WORK = (name: string) => ({ kind: 'document', id: name, name }) as const

/** Opens something once. A failure is not kept: the next caller tries again. */
function once<T extends object>(open: T | (() => Promise<T>)): () => Promise<T> {
  if (typeof open !== 'function') return async () => open
  let opened: Promise<T> | undefined
  return async () => {
    opened ??= open()
    try {
      return await opened
    } catch (error) {
      opened = undefined
      throw error
    }
  }
}

function intervalOf(interval: Duration): number {
  const ms = parseDuration(interval)
  if (ms === undefined || ms < 1) throw new OptionError('interval', mustBe('interval', DURATION, interval))
  return ms
}

function pageSizeOf(pageSize: number): number {
  if (Number.isInteger(pageSize) && pageSize >= 1 && pageSize <= 10_000) return pageSize
  throw new OptionError('pageSize', mustBe('pageSize', 'a whole number from 1 to 10000', pageSize))
}

function checkCollections(collections: readonly Collection[], store: Store | undefined): void {
  const names = collections.map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (names.length === 0) throw new OptionError('collections', `'collections' must name at least one collection.`)
  if (twice !== undefined) throw new OptionError('collections', `The collection '${twice}' is named twice.`)
  const withLane = collections.find(({ lane }) => lane !== undefined)
  if (withLane !== undefined && store === undefined)
    throw new OptionError('store', `The collection '${withLane.name}' names a lane: pass the store that has it.`)
}
