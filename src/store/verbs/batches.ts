import type { BatchChunk, BatchCount, BatchRecord, BatchStore } from '../contract/batch-store.js'
import type { By } from '../contract/ledger.js'
import type { Page, PageRequest } from '../contract/list.js'
import type { Retention } from '../contract/store.js'
import type { NewTask, TaskRecord, TaskStatus } from '../contract/task.js'
import type { RecordPlace, StoredRecord } from '../port/record-port.js'
import type { Steps, Transactions, Tx } from '../port/steps.js'
import {
  BATCH,
  type BatchState,
  batchRecord,
  batchRow,
  batchState,
  countsOf,
  endedBatch,
  isForgettable,
  openedBatch,
  reopenedBatch,
} from '../rules/batches/batch-rules.js'
import { checkBatchChunk, checkBatchName, checkMember } from '../rules/batches/check-batch.js'
import { BatchEndedError, BatchNotFoundError } from '../rules/batches/errors.js'
import { batchesOf, batchOf, memberTasks } from '../rules/batches/members.js'
import { checkPage, checkPerson } from '../rules/check.js'
import { fullPage, NEWEST, pageByTime, taskPlace } from '../rules/cursor.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import { batchClosedRecord, batchReopenedRecord } from '../rules/operator-record.js'

/** Records that are read at once. */
const PAGE = 500

/**
 * The batches of every store. A verb that changes one locks its record first. What it then reads has all that others committed
 * before, so of two processes that settle the last two members at once, the second to check sees both.
 */
export class Batches implements BatchStore {
  readonly #store: Transactions
  readonly #ring: () => void

  constructor(store: Transactions, ring: () => void) {
    this.#store = store
    this.#ring = ring
  }

  async fill(name: string, chunk: BatchChunk): Promise<{ readonly added: number; readonly isFull: boolean }> {
    checkBatchName(name)
    checkBatchChunk(chunk)
    const members = memberTasks(name, chunk.position, chunk.tasks)
    members.forEach(checkMember)
    const answer = await this.#store.write(function* (tx) {
      const now = yield* tx.clock.now()
      const state = (yield* locked(tx, name)) ?? openedBatch(name, chunk, now)
      if (state.isFull) return { added: 0, isFull: true }
      const added = (yield* tx.tasks.enqueue(members, now)).filter(Boolean).length
      yield* saveOrEnd(tx, { ...state, isFull: chunk.isEnd }, now)
      return { added, isFull: false }
    })
    this.#ring()
    return answer
  }

  async grow(name: string, tasks: readonly (NewTask & { readonly id: string })[]): Promise<{ readonly added: number }> {
    checkBatchName(name)
    tasks.forEach(checkMember)
    const added = await this.#change(name, function* (tx, state, now) {
      if (state.endedAt !== undefined) throw new BatchEndedError(name)
      return (yield* tx.tasks.enqueue(tasks, now)).filter(Boolean).length
    })
    this.#ring()
    return { added }
  }

  async close(name: string, by: By): Promise<void> {
    checkPerson(by)
    await this.#change(name, function* (tx, state, now) {
      if (state.isFull) return
      yield* tx.audit.append(batchClosedRecord(name, by, now), now)
      yield* saveOrEnd(tx, { ...state, isFull: true }, now)
    })
    this.#ring()
  }

  async get(name: string): Promise<BatchRecord | undefined> {
    checkBatchName(name)
    return this.#store.read(function* (tx) {
      const found = yield* tx.records.get(BATCH, name)
      return found && batchRecord(batchState(found), yield* tx.batches.tally(name))
    })
  }

  async list({ isOpen = false }: { readonly isOpen?: boolean }, page: PageRequest): Promise<Page<BatchRecord>> {
    const { limit, after } = page
    checkPage({ limit })
    const { changedAt: place, id } = after === undefined ? NEWEST : taskPlace(after)
    return this.#store.read(function* (tx) {
      const records: (BatchRecord & { readonly id: string })[] = []
      for (const found of yield* tx.records.newest(BATCH, isOpen, { place, id }, limit + 1)) {
        const isMore = records.length === limit
        const tally: readonly BatchCount[] = isMore ? [] : yield* tx.batches.tally(found.id)
        records.push({ ...batchRecord(batchState(found), tally), id: found.id })
      }
      const { items, ...rest } = pageByTime(records, limit, ({ createdAt }) => createdAt)
      return { ...rest, items: items.map(({ id: _, ...record }) => record) }
    })
  }

  async members(
    name: string,
    status: TaskStatus | undefined,
    { limit, after = '' }: PageRequest,
  ): Promise<Page<TaskRecord>> {
    checkBatchName(name)
    checkPage({ limit })
    return this.#store.read(function* (tx) {
      known(name, yield* tx.records.get(BATCH, name))
      const ids = yield* tx.batches.members(name, status, after, limit)
      return fullPage(yield* tx.reads.several(ids), limit, ids.at(-1) ?? '')
    })
  }

  async tally(name: string): Promise<readonly BatchCount[]> {
    checkBatchName(name)
    return this.#store.read(function* (tx) {
      known(name, yield* tx.records.get(BATCH, name))
      return yield* tx.batches.tally(name)
    })
  }

  async check(name: string, from = ''): Promise<string | undefined> {
    checkBatchName(name)
    // Without the lock first: most checks find that a member waits or runs.
    const first = await this.#store.read(tx => tx.batches.unfinished(name, from))
    if (first !== undefined) return first
    const { left, hasEnded } = await this.#store.write(function* (tx) {
      const state = yield* locked(tx, name)
      if (state === undefined || state.endedAt !== undefined) return { left: undefined, hasEnded: false }
      return yield* endIfDone(tx, state, yield* tx.clock.now())
    })
    if (hasEnded) this.#ring()
    return left
  }

  async open(): Promise<readonly string[]> {
    return this.#store.read(function* (tx) {
      const names: string[] = []
      for (let place: RecordPlace | undefined = startOf(NEWEST); place !== undefined; ) {
        const page: readonly StoredRecord[] = yield* tx.records.newest(BATCH, true, place, PAGE)
        names.push(...page.map(({ id }) => id))
        place = page[PAGE - 1]
      }
      return names
    })
  }

  /** Changes a batch in one transaction, under its lock. */
  async #change<T>(name: string, body: (tx: Tx, state: BatchState, now: number) => Steps<T>): Promise<T> {
    checkBatchName(name)
    return this.#store.write(function* (tx) {
      const [found] = yield* tx.records.lock(BATCH, [name])
      return yield* body(tx, batchState(known(name, found)), yield* tx.clock.now())
    })
  }
}

/** Locks the batches of tasks whose status an act may change. To be called before the act, so that no check comes between. */
export function* lockBatches(tx: Tx, ids: readonly string[]): Steps<ReadonlyMap<string, BatchState>> {
  const names = batchesOf(ids)
  if (names.length === 0) return NONE
  const found = yield* tx.records.lock(BATCH, names)
  return new Map(found.map(record => [record.id, batchState(record)]))
}

const NONE: ReadonlyMap<string, BatchState> = new Map()

/** Opens batches again whose dead members were redriven, on record. */
export function* reopenBatches(
  tx: Tx,
  batches: ReadonlyMap<string, BatchState>,
  moved: readonly string[],
  by: By,
  now: number,
): Steps<void> {
  for (const [name, state] of batches) {
    const members = moved.filter(id => batchOf(id) === name).length
    if (members === 0 || state.endedAt === undefined) continue
    yield* save(tx, reopenedBatch(state, members, by, now))
    yield* tx.audit.append(batchReopenedRecord(name, members, by, now), now)
  }
}

/** Ends batches whose last members were cancelled, and notes whether those that had ended have dead members by now. */
export function* addUpBatches(tx: Tx, batches: ReadonlyMap<string, BatchState>, now: number): Steps<void> {
  for (const [name, state] of batches) {
    if (state.endedAt === undefined) yield* endIfDone(tx, state, now)
    else yield* save(tx, { ...state, hasDead: countsOf(yield* tx.batches.tally(name)).dead > 0 })
  }
}

/** Gives up dead tasks of which some may be members of batches, which may have no dead ones left then. Returns the ids that it changed. */
export function* discardTasks(
  tx: Tx,
  ids: readonly string[],
  by: By,
  now: number,
  part?: PartOfOperation,
): Steps<string[]> {
  const batches = yield* lockBatches(tx, ids)
  const discarded = yield* tx.tasks.discard(ids, by, now, part)
  yield* addUpBatches(tx, batches, now)
  return discarded
}

/** Forgets batches that ended long ago, so that their members can be pruned. */
export function* pruneBatches(tx: Tx, keep: Retention, limit: number): Steps<number> {
  const now = yield* tx.clock.now()
  const old: string[] = []
  for (let place: RecordPlace | undefined = startOf(NEWEST); place !== undefined && old.length < limit; ) {
    const page: readonly StoredRecord[] = yield* tx.records.newest(BATCH, false, place, PAGE)
    old.push(...page.filter(record => isForgettable(batchState(record), keep, now)).map(({ id }) => id))
    place = page[PAGE - 1]
  }
  // Locked and looked at again: somebody may have redriven a member meanwhile.
  const found = yield* tx.records.lock(BATCH, old.slice(0, limit))
  const gone = found.filter(record => isForgettable(batchState(record), keep, now)).map(({ id }) => id)
  if (gone.length > 0) yield* tx.records.drop(BATCH, gone)
  return gone.length
}

/** Ends a batch if all members were added and none waits or runs. `left` is the first of those. */
function* endIfDone(
  tx: Tx,
  state: BatchState,
  now: number,
): Steps<{ readonly left: string | undefined; readonly hasEnded: boolean }> {
  if (!state.isFull) return { left: undefined, hasEnded: false }
  const left = yield* tx.batches.unfinished(state.name, '')
  if (left !== undefined) return { left, hasEnded: false }
  const ended = endedBatch(state, countsOf(yield* tx.batches.tally(state.name)), now)
  yield* save(tx, ended.state)
  if (ended.task !== undefined) yield* tx.tasks.enqueue([ended.task], now)
  return { left, hasEnded: true }
}

/** Saves a batch that has changed, and ends it if it can. */
function* saveOrEnd(tx: Tx, state: BatchState, now: number): Steps<void> {
  const { hasEnded } = yield* endIfDone(tx, state, now)
  if (!hasEnded) yield* save(tx, state)
}

function* locked(tx: Tx, name: string): Steps<BatchState | undefined> {
  const [found] = yield* tx.records.lock(BATCH, [name])
  return found && batchState(found)
}

function* save(tx: Tx, state: BatchState): Steps<void> {
  yield* tx.records.save(BATCH, [batchRow(state)])
}

function known(name: string, found: StoredRecord | undefined): StoredRecord {
  if (found === undefined) throw new BatchNotFoundError(name)
  return found
}

function startOf({ changedAt: place, id }: typeof NEWEST): RecordPlace {
  return { place, id }
}
