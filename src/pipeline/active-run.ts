import type { Engine, RunFollower, RunNews } from '../engine/internal.js'
import type { By } from '../store/index.js'
import type { RunRecord, StoreContract } from '../store/internal.js'
import { failureText, type Sink } from '../telemetry/index.js'
import { emit, type RunEnded, type RunStarted } from '../telemetry/internal.js'

import type { Clock } from '../time/index.js'
import { ownId } from './item-context.js'
import { Meter } from './meter.js'
import type { ItemResult, RunHandle } from './run-handle.js'
import { checkLiveOptions, checkStageNames, type LiveOptions } from './run-options.js'
import { RunResult } from './run-result.js'
import { changedSettings } from './run-settings.js'
import type { Snapshot } from './snapshot.js'
import type { SourceReader } from './source-reader.js'

/** Snapshots are about this far apart. */
const SNAPSHOT_MS = 900
/** How many items are read or cancelled at a time. */
const PAGE = 500

/** The parts of a run that is worked on. */
export interface RunParts {
  readonly store: StoreContract
  readonly clock: Clock
  readonly engine: Engine
  readonly sink: Sink | undefined
  readonly isResumed: boolean
  /** Absent where there is no source to read. */
  readonly reader: Pick<SourceReader<unknown>, 'read' | 'stop' | 'onRecord' | 'onEnded'> | undefined
}

type RunEvent<E> = Omit<E, 'work' | 'at'>

/**
 * A run that this process works on. For this process it is over when the run has ended; when its budget stopped it and
 * nothing runs any more; when its source was interrupted and nothing is left of what was taken; or when it is told to stop.
 */
export class ActiveRun<Out> implements RunHandle<Out>, RunFollower {
  readonly id: string
  readonly result: Promise<RunResult>
  readonly #parts: RunParts
  readonly #meter = new Meter()
  /** Rings with each record. */
  readonly #news = new Signal()
  readonly #over = new Signal()
  #record: RunRecord
  #isReading: boolean
  #isOver = false
  /** The error that the source threw. */
  #failure: unknown

  constructor(run: RunRecord, parts: RunParts) {
    this.id = run.id
    this.#record = run
    this.#parts = parts
    this.#isReading = parts.reader !== undefined
    this.#tell({ type: 'run_started', isResumed: parts.isResumed })
    this.result = this.#work()
    // Whoever does not look at the result need not handle its failure.
    this.result.catch(() => {})
  }

  onRecord(record: RunRecord): void {
    this.#record = record
    this.#parts.reader?.onRecord(record)
    this.#isOver ||= this.#hasNothingLeft()
    if (this.#isOver) this.#over.ring()
    this.#news.ring()
  }

  onSettled(news: RunNews): void {
    this.#meter.onSettled(news)
    this.#parts.reader?.onEnded(news.ended)
  }

  async *progress(): AsyncGenerator<Snapshot> {
    let shownAt = -Infinity
    for (;;) {
      const now = this.#parts.clock.monotonic()
      if (this.#isOver || now - shownAt >= SNAPSHOT_MS) {
        if (this.#isOver) await this.result
        shownAt = now
        yield this.#meter.snapshot(this.#record, now)
        if (this.#isOver) return
      }
      await this.#news.next()
    }
  }

  async *results(): AsyncGenerator<ItemResult<Out>> {
    const { runs } = this.#parts.store
    let after: string | undefined
    do {
      const { items, next } = await runs.items(this.id, { limit: PAGE, after }, 'succeeded')
      for (const item of items) {
        // The last stage's type says what it returns; a stage that returns nothing has no result.
        yield { id: ownId(item), value: (item.result === undefined ? undefined : JSON.parse(item.result)) as Out }
      }
      after = next
    } while (after !== undefined)
  }

  async pause(by?: By): Promise<void> {
    await this.#parts.store.runs.change(this.id, { isPaused: true }, by)
    await this.#parts.engine.runs.check(this.id)
  }

  async resume(by?: By): Promise<void> {
    await this.#parts.store.runs.change(this.id, { isPaused: false }, by)
    await this.#parts.engine.runs.check(this.id)
  }

  async change(options: LiveOptions, by?: By): Promise<void> {
    checkLiveOptions(options)
    checkStageNames(options, this.#record.pipeline, this.#record.stages)
    await this.#parts.store.runs.change(this.id, { settings: changedSettings(options) }, by)
    await this.#parts.engine.runs.check(this.id)
  }

  async cancel(by: By = { who: this.#parts.engine.name }): Promise<void> {
    let left = 1
    while (left > 0) left = (await this.#parts.store.runs.cancel(this.id, PAGE, by)).left
    await this.#parts.engine.runs.check(this.id)
  }

  async stop(): Promise<void> {
    this.#isOver = true
    this.#over.ring()
    await this.result
  }

  async #work(): Promise<RunResult> {
    const { engine, store, reader } = this.#parts
    const unfollow = engine.runs.follow(this.id, this)
    const over = this.#over.next()
    const reading = this.#read()
    try {
      // The engine ends by itself only if it cannot go on.
      await Promise.race([over, reading.then(() => over), engine.stopped])
      reader?.stop()
      await reading
    } finally {
      unfollow()
      await engine.stop()
      this.#isOver = true
      this.#news.ring()
    }
    this.#record = (await store.runs.get(this.id)) ?? this.#record
    const result = new RunResult(this.#record, await store.now(), this.#failure)
    const { status, counts, durationMs } = result
    this.#tell({ type: 'run_ended', status, counts, durationMs })
    return result
  }

  /** Reads the source, if there is one. A source that throws interrupts the run, and so does a reader that gives up. */
  async #read(): Promise<void> {
    const { reader, store, engine } = this.#parts
    const end = (await reader?.read()) ?? { type: 'read' }
    this.#isReading = false
    if (end.type === 'failed') this.#failure = end.failure
    if (end.type !== 'read') {
      const sourceError =
        end.type === 'failed' ? failureText(end.failure) : 'the process that read it stopped working on the run'
      await store.runs.change(this.id, { sourceError, reader: engine.name })
    }
    await engine.runs.check(this.id)
  }

  #tell(event: RunEvent<RunStarted> | RunEvent<RunEnded>): void {
    const { sink, clock } = this.#parts
    const { pipeline } = this.#record
    const work = { kind: 'run', id: this.id, name: pipeline, pipeline, run: this.id } as const
    if (sink !== undefined) emit(sink, { work, at: clock.now(), ...event })
  }

  #hasNothingLeft(): boolean {
    const { status, counts, endedAt } = this.#record
    if (endedAt !== undefined) return true
    if (status === 'stopped') return counts.running === 0
    return status === 'interrupted' && !this.#isReading && counts.waiting + counts.running === 0
  }
}

/** Wakes all that wait for it, each time that it is rung. */
class Signal {
  #promise: Promise<void> | undefined
  #resolve: () => void = () => {}

  /** Resolves when it is rung next. */
  next(): Promise<void> {
    this.#promise ??= new Promise(resolve => {
      this.#resolve = resolve
    })
    return this.#promise
  }

  ring(): void {
    this.#resolve()
    this.#promise = undefined
  }
}
