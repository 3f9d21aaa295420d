import { activeTraceparent, persist, UNTIL_ANSWERED } from '../attempt/index.js'
import { Bell } from '../engine/internal.js'
import { plainJson, problemOf, quoted } from '../policy/internal.js'
import { type Chunk, RunBusyError, RunEndedError, type RunRecord, type RunStore } from '../store/internal.js'
import type { Clock } from '../time/index.js'
import { SourceItemError } from './errors.js'
import { type OpenSource, openSource, type Step } from './open-source.js'
import { LATE, Patience } from './patience.js'
import { ReaderLease } from './reader-lease.js'
import type { Source } from './source.js'
import type { StageCode } from './stage.js'
import { costOf } from './stage-kind.js'

/** The maximum number of items that are committed together. */
const CHUNK = 1000
/** Items of a slow source are committed after this time at the latest. */
const CHUNK_MS = 200
/** A longer item belongs in a file or a table, with a reference to it in the source. */
const MAX_ITEM = 2 ** 20

/** Options of a reader. */
export interface ReaderOptions<In> {
  /** Its name on record. */
  readonly name: string
  readonly leaseMs: number
  readonly clock: Clock
  /** Where the items begin. */
  readonly firstStage: StageCode | undefined
  readonly itemId: ((item: In, position: number) => string) | undefined
}

/**
 * How the reading came to its end: the source was read, it failed, or it was left, because the reader was stopped or the
 * run takes no more items.
 */
export type ReadingEnd = { readonly type: 'read' | 'left' } | { readonly type: 'failed'; readonly failure: unknown }

/** Items of the source that are to be committed together, and why there are no more of them. */
interface Collected<In> {
  readonly items: Chunk['items'][number][]
  last: Step<In> | undefined
  isEnd: boolean
  failure: { readonly cause: unknown } | undefined
}

/**
 * Reads the source of a run under a lease, and commits its items in chunks, each with the position and the cursor that
 * follow it. It reads on only while few enough items are unfinished.
 */
export class SourceReader<In> {
  readonly #runs: RunStore
  readonly #options: ReaderOptions<In>
  readonly #source: Source<In>
  readonly #lease: ReaderLease
  readonly #bell: Bell
  readonly #leaving = new AbortController()
  /** The span that started or resumed the run in this process. */
  readonly #traceparent = activeTraceparent()
  #run: RunRecord
  #open: OpenSource<In> | undefined
  #position = 0
  /** Items that ended in this process since the record was made. */
  #endedSince = 0
  /** An item that the source was asked for, and has not given yet. */
  #pending: Promise<Step<In> | undefined> | undefined

  constructor(runs: RunStore, run: RunRecord, source: Source<In>, options: ReaderOptions<In>) {
    const { leaseMs, clock } = options
    this.#runs = runs
    this.#run = run
    this.#source = source
    this.#options = options
    this.#lease = new ReaderLease(
      () => this.#renew(),
      leaseMs,
      clock,
      () => this.stop(),
    )
    this.#bell = new Bell(clock)
  }

  /** Takes the run as it is on record now. */
  onRecord(run: RunRecord): void {
    this.#run = run
    this.#endedSince = 0
    this.#bell.ring()
  }

  /** Items of the run have ended. */
  onEnded(count: number): void {
    this.#endedSince += count
    this.#bell.ring()
  }

  /** Leaves the source. What was committed stays. */
  stop(): void {
    this.#leaving.abort()
    this.#bell.ring()
  }

  /**
   * Reads to the end of the source, or until it fails or is left. While another process reads the run, it stands by, and
   * takes over if that process dies.
   */
  async read(): Promise<ReadingEnd> {
    try {
      const refusal = await this.#begin()
      if (refusal !== undefined) return refusal
      this.#lease.start()
      for (;;) {
        const room = await this.#room()
        if (room === 0) return { type: 'left' }
        const { items, last, isEnd, failure } = await this.#collect(room)
        if (items.length > 0 || isEnd) {
          const refusal = await this.#take({ items, cursor: last?.cursor, isEnd })
          if (refusal !== undefined) return refusal
        }
        if (failure !== undefined) return { type: 'failed', failure: failure.cause }
        if (isEnd) return { type: 'read' }
      }
    } finally {
      this.#lease.stop()
      this.#open?.close()
    }
  }

  /** Waits for the lease, and opens the source where the run has left it. Returns an end if there is nothing to read. */
  async #begin(): Promise<ReadingEnd | undefined> {
    const { clock } = this.#options
    const { signal } = this.#leaving
    try {
      this.onRecord(await persist(() => this.#renew(), UNTIL_ANSWERED, { clock, signal }))
    } catch (failure) {
      if (signal.aborted || failure instanceof RunEndedError) return { type: 'left' }
      throw failure
    }
    this.#position = this.#run.position
    try {
      this.#open = openSource(this.#source, this.#run)
    } catch (failure) {
      return { type: 'failed', failure }
    }
    return undefined
  }

  #renew(): Promise<RunRecord> {
    const { name, leaseMs } = this.#options
    return this.#runs.read(this.#run.id, name, leaseMs)
  }

  /** Waits until the run has room for more items, and says for how many: 0 if there is nothing more to read. */
  async #room(): Promise<number> {
    for (;;) {
      const { status, counts, settings, isRead } = this.#run
      if (this.#leaving.signal.aborted || isRead) return 0
      const room = settings.maxUnfinished - (counts.waiting + counts.running - this.#endedSince)
      // Not for every single place: a chunk is a transaction.
      const enough = Math.max(1, Math.min(CHUNK, Math.floor(settings.maxUnfinished / 4)))
      // A run that its budget stopped may be resumed, for as long as this process works on it.
      if (room >= enough && status !== 'paused' && status !== 'stopped') return Math.min(CHUNK, room)
      await this.#bell.wait(Infinity)
    }
  }

  /** Takes items from the source: as many as there is room for, or fewer if it is slow. */
  async #collect(room: number): Promise<Collected<In>> {
    const chunk: Collected<In> = { items: [], last: undefined, isEnd: false, failure: undefined }
    const patience = new Patience(this.#options.clock, this.#leaving.signal)
    try {
      while (chunk.items.length < room) {
        const answer = this.#pending ?? this.#open?.next()
        if (chunk.items.length > 0) patience.begin(CHUNK_MS)
        const step = answer instanceof Promise ? await this.#first(answer, patience.over) : answer
        if (step === LATE) break
        if (step === undefined) {
          chunk.isEnd = true
          break
        }
        chunk.items.push(this.#item(step.item, this.#position + chunk.items.length))
        chunk.last = step
      }
    } catch (cause) {
      chunk.failure = { cause }
    } finally {
      patience.end()
    }
    return chunk
  }

  /** The answer of the source, unless the time is over first. Then the answer is kept for the next chunk. */
  async #first(
    answer: Promise<Step<In> | undefined>,
    over: Promise<typeof LATE>,
  ): Promise<Step<In> | undefined | typeof LATE> {
    this.#pending = answer
    answer.catch(() => {})
    const step = await Promise.race([answer, over])
    if (step !== LATE) this.#pending = undefined
    return step
  }

  /** Commits a chunk. Returns an end if the run did not take it. */
  async #take(chunk: Pick<Chunk, 'items' | 'cursor' | 'isEnd'>): Promise<ReadingEnd | undefined> {
    const { name: reader, leaseMs, clock } = this.#options
    const about = { reader, leaseMs, position: this.#position, traceparent: this.#traceparent }
    const take = () => this.#runs.take(this.#run.id, { ...chunk, ...about })
    try {
      const run = await persist(take, UNTIL_ANSWERED, { clock, classify: isOver })
      this.#position += chunk.items.length
      this.onRecord(run)
      return undefined
    } catch (failure) {
      // A refusal, such as an id that the store does not take.
      return isOver(failure) === undefined ? { type: 'failed', failure } : { type: 'left' }
    }
  }

  #item(item: In, position: number): Chunk['items'][number] {
    const { itemId, firstStage } = this.#options
    const id = itemId && checkedId(itemId(item, position), position)
    const cost = firstStage && costOf(firstStage, item, id ?? String(position))
    return { payload: payloadOf(item, position), ...(id !== undefined && { id }), ...(cost !== undefined && { cost }) }
  }
}

/** Whether there is nothing more to read: asking again would not help. */
function isOver(failure: unknown): 'final' | undefined {
  return failure instanceof RunBusyError || failure instanceof RunEndedError ? 'final' : undefined
}

function checkedId(id: unknown, position: number): string {
  if (typeof id === 'string' && id !== '') return id
  const problem = `its 'itemId' must be a text that is not empty, got ${quoted(id)}.`
  throw new SourceItemError(placeOf(position), problem)
}

function placeOf(position: number): string {
  return `The item at position ${position} of the source cannot be taken`
}

function payloadOf(item: unknown, position: number): string {
  const json = jsonOf(item, position)
  if (json.length <= MAX_ITEM) return json
  const problem = `it is ${json.length} characters long, and ${MAX_ITEM} are allowed.`
  throw new SourceItemError(placeOf(position), problem)
}

function jsonOf(item: unknown, position: number): string {
  const place = placeOf(position)
  let json: string | undefined
  try {
    json = plainJson(item)
  } catch (cause) {
    throw new SourceItemError(place, `${problemOf(cause)}.`, { cause })
  }
  if (json === undefined) throw new SourceItemError(place, 'it is undefined.')
  return json
}
