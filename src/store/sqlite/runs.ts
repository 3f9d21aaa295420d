import { checkNewTask, checkPage } from '../check.js'
import { taskPlace } from '../cursor.js'
import type { By } from '../ledger.js'
import type { Page, PageRequest } from '../list.js'
import type { PartOfOperation } from '../operations/operation-rules.js'
import { cancelRunRecord, changeRunRecord, reprocessRecord } from '../operator-record.js'
import { taskRecord } from '../rows.js'
import type {
  Chunk,
  NewRun,
  OutputRow,
  ReprocessFilter,
  ReprocessOptions,
  RunChange,
  RunRecord,
  RunStatus,
  RunStore,
} from '../run-store.js'
import {
  checkCancel,
  checkChunk,
  checkNewRun,
  checkReader,
  checkReprocess,
  checkRunChange,
  checkRunId,
  checkRunStatus,
  checkWritten,
} from '../runs/check-run.js'
import { RunExistsError } from '../runs/errors.js'
import { itemPage, itemScan } from '../runs/item-page.js'
import { FIRST_RUN_LANE, itemKind, lanesOf } from '../runs/items.js'
import { runState } from '../runs/run-row.js'
import { cancelling, changed, checked, isEnded, opened, readBy, refuseCancelling, taken } from '../runs/run-rules.js'
import { type RunState, runRecord, statusOf, totalOf } from '../runs/run-state.js'
import type { Retention } from '../store.js'
import type { NewTask, TaskRecord, TaskStatus } from '../task.js'
import { State, statusOf as taskStatusOf } from '../task-state.js'
import type { Connection } from './driver.js'
import { enqueue } from './enqueue.js'
import type { GroupCommit } from './group-commit.js'
import { LaneBook } from './lane-book.js'
import type { LaneIds } from './lane-ids.js'
import { cancel, deadAmong, redrive } from './operators.js'
import { pruneRuns } from './prune-runs.js'
import {
  countsOf,
  deadItemsOf,
  loadRun,
  noteEnded,
  pauseRun,
  type RunTables,
  reopenRuns,
  runsOf,
  saveChecked,
  saveRun,
} from './run-records.js'
import type { EndedItem } from './settle.js'
import { runStatementsOf } from './statements/runs.js'
import { statementsOf } from './statements.js'

/** The parts of a store that its runs work with. */
export interface SqliteRunParts {
  readonly db: Connection
  readonly commits: GroupCommit
  readonly lanes: LaneIds
  readonly makeId: (now: number) => string
  readonly now: () => number
  /** Calls the watchers. */
  readonly ring: () => void
}

const NEWEST = { changedAt: Number.MAX_SAFE_INTEGER, id: '' }

const NONE: ReadonlySet<string> = new Set()

/** The most items that a check cancels, of a run that was cancelled. */
const SWEPT = 1000

/** The runs of a SQLite store. */
export class SqliteRuns implements RunStore {
  readonly #tables: RunTables
  readonly #parts: SqliteRunParts

  constructor(parts: SqliteRunParts) {
    this.#parts = parts
    this.#tables = { tasks: statementsOf(parts.db), runs: runStatementsOf(parts.db) }
  }

  open(run: NewRun): Promise<RunRecord> {
    return this.#write(
      () => checkNewRun(run),
      now => {
        if (this.#tables.runs.isTaken.get(run.id) === 1) throw new RunExistsError(run.id)
        const state = opened(run, now)
        this.#makeLanes(state)
        return this.#save(state, now)
      },
    )
  }

  async get(id: string): Promise<RunRecord | undefined> {
    checkRunId(id)
    return this.#parts.commits.read(() => {
      const state = this.#tables.runs.run.get(id)
      return state === undefined ? undefined : this.#record(runState(state), this.#parts.now())
    })
  }

  async list(
    { pipeline, status }: { readonly pipeline?: string; readonly status?: RunStatus },
    { limit, after }: PageRequest,
  ): Promise<Page<RunRecord>> {
    checkPage({ limit })
    checkRunStatus(status)
    const { changedAt, id } = after === undefined ? NEWEST : taskPlace(after)
    return this.#parts.commits.read(() => {
      const now = this.#parts.now()
      const found: RunState[] = []
      let place = { created_at: changedAt, id }
      for (let isMore = true; isMore && found.length <= limit; ) {
        const rows = this.#tables.runs.list
          .all({ ...place, pipeline: pipeline ?? null, limit: limit + 1 })
          .map(runState)
        found.push(...rows.filter(state => status === undefined || statusOf(state, now) === status))
        const last = rows.at(-1)
        isMore = rows.length > limit && last !== undefined
        if (last !== undefined) place = { created_at: last.createdAt, id: last.id }
      }
      const items = found.slice(0, limit).map(state => this.#record(state, now))
      const last = items.at(-1)
      return found.length > limit && last !== undefined ? { items, next: `${last.createdAt}:${last.id}` } : { items }
    })
  }

  read(id: string, reader: string, leaseMs: number): Promise<RunRecord> {
    return this.#change(
      id,
      () => checkReader(reader, leaseMs),
      (state, now) => this.#save(readBy(state, reader, leaseMs, now), now),
    )
  }

  take(id: string, chunk: Chunk): Promise<RunRecord> {
    return this.#change(
      id,
      () => checkChunk(chunk),
      (before, now) => {
        const { state, items } = taken(before, chunk, now)
        items.forEach(checkNewTask)
        const isNew = this.#enqueue(items, now)
        for (const [index, { id: item }] of state.hasOwnIds ? items.entries() : []) {
          if (isNew[index]) this.#tables.runs.addItem.run(id, before.position + index, item)
        }
        const fresh = isNew.filter(Boolean).length
        return this.#save({ ...state, duplicates: state.duplicates + items.length - fresh }, now)
      },
    )
  }

  check(id: string): Promise<RunRecord> {
    return this.#change(
      id,
      () => {},
      (before, now) => {
        if (before.phase === 'cancelling') this.#cancelItems(before, SWEPT, now)
        return this.#record(this.#addUp(before, now), now)
      },
    )
  }

  change(id: string, change: RunChange, by?: By): Promise<RunRecord> {
    return this.#change(
      id,
      () => checkRunChange(change, by),
      (before, now) => {
        const { state, isPaused } = changed(before, change, countsOf(this.#tables, before), now)
        this.#makeLanes(state)
        if (isPaused !== undefined) pauseRun(this.#tables, state, isPaused, now, by)
        if (isPaused === false) this.#parts.ring()
        if (by !== undefined) this.#tables.tasks.appendAudit.run(now, changeRunRecord(id, change, by, now))
        return this.#save(state, now)
      },
    )
  }

  async items(id: string, page: PageRequest, status?: TaskStatus): Promise<Page<TaskRecord>> {
    checkRunId(id)
    checkPage(page)
    const { runs } = this.#tables
    const states = JSON.stringify(Object.values(State).filter(s => status === undefined || taskStatusOf(s) === status))
    return this.#parts.commits.read(() => {
      const state = loadRun(this.#tables, id)
      const scan = itemScan(state, page)
      const { from, end, afterId: after, endId } = scan
      const rows = state.hasOwnIds
        ? runs.ownItems.all({ run: id, from, end, states, limit: page.limit })
        : runs.items.all({ after, end: endId, states, limit: page.limit })
      return itemPage(state, scan, rows, page.limit, taskRecord)
    })
  }

  cancel(id: string, limit: number, by: By): Promise<{ readonly cancelled: number; readonly left: number }> {
    return this.#change(
      id,
      () => checkCancel(limit, by),
      (before, now) => {
        const state = cancelling(before, now)
        saveRun(this.#tables, state)
        if (before.phase === 'open') {
          pauseRun(this.#tables, state, true, now, by)
          this.#tables.tasks.appendAudit.run(now, cancelRunRecord(id, by, now))
        }
        const cancelled = this.#cancelItems(state, limit, now)
        this.#addUp(state, now)
        return { cancelled, left: totalOf(countsOf(this.#tables, state)).waiting }
      },
    )
  }

  reprocess(
    filter: ReprocessFilter,
    options: ReprocessOptions,
  ): Promise<{ readonly moved: number; readonly reopened: readonly string[] }> {
    return this.#write(
      () => checkReprocess(filter, options),
      now => {
        const { by, limit } = options
        const as = options.as === filter.stage ? undefined : options.as
        const { dead, waiting } = this.#matching(filter, limit, as !== undefined)
        const items = [...dead, ...waiting]
        runsOf(this.#tables, items).forEach(refuseCancelling)
        const deaths = deadItemsOf(this.#tables, dead)
        redrive(this.#tables.tasks, deadAmong(this.#tables.tasks, dead), by, now)
        if (as !== undefined) this.#move(items, as)
        const reopened = reopenRuns(this.#tables, deaths, as, now)
        const record = () => reprocessRecord({ ...filter, as }, items.length, reopened, by, now)
        if (items.length > 0) this.#tables.tasks.appendAudit.run(now, record())
        if (items.length > 0) this.#parts.ring()
        return { moved: items.length, reopened }
      },
    )
  }

  async outputs(id: string, limit: number): Promise<readonly OutputRow[]> {
    checkRunId(id)
    checkPage({ limit })
    return this.#parts.commits.read(() => {
      loadRun(this.#tables, id)
      return this.#tables.runs.outputs.all(id, limit).map(row => ({ id: row.id, result: row.result ?? undefined }))
    })
  }

  written(id: string, ids: readonly string[], outputBytes: number): Promise<void> {
    return this.#change(
      id,
      () => checkWritten(ids, outputBytes),
      state => {
        for (const item of ids) this.#tables.runs.written.run(id, item)
        saveRun(this.#tables, { ...state, outputBytes })
      },
    )
  }

  /**
   * Lists outputs that are to be written, and checks budgets for which that is due. Returns the runs that it stopped. Within a
   * transaction.
   */
  noteEnded(items: readonly EndedItem[], now: number): ReadonlySet<string> {
    return items.length === 0 ? NONE : noteEnded(this.#tables, items, now)
  }

  /**
   * Redrives tasks, and opens the runs of those that are items again. Leaves items alone whose run is being cancelled or
   * forgotten: they would be cancelled or deleted at once. Returns the ids that it moved. Within a transaction.
   */
  redrive(ids: readonly string[], by: By, now: number, part?: PartOfOperation): string[] {
    const tables = this.#tables
    const dead = deadAmong(tables.tasks, ids, part)
    const items = dead.filter(({ lane }) => lane >= FIRST_RUN_LANE).map(({ id }) => id)
    const open = runsOf(tables, items).filter(({ phase, isForgotten }) => phase !== 'cancelling' && !isForgotten)
    const openIds = new Set(open.map(({ id }) => id))
    const deaths = deadItemsOf(tables, items)
    const kept = new Set(deaths.filter(({ run }) => !openIds.has(run)).map(({ id }) => id))
    const isMeant = ({ id }: { readonly id: string }) => !kept.has(id)
    const moved = redrive(tables.tasks, dead.filter(isMeant), by, now, part?.operation)
    reopenRuns(tables, deaths.filter(isMeant), undefined, now)
    return moved
  }

  /** Cancels tasks, and ends the runs whose last items they were. Returns the ids that end. Within a transaction. */
  cancelTasks(ids: readonly string[], by: By | undefined, now: number): string[] {
    this.#parts.lanes.begin()
    const cancelled = cancel(this.#tables.tasks, ids, by, now)
    for (const run of runsOf(this.#tables, cancelled)) this.#addUp(run, now)
    return cancelled
  }

  /** Forgets runs that ended long enough ago. Within a transaction. */
  prune(keep: Retention, limit: number, now: number): number {
    const gone = pruneRuns(this.#tables, keep, limit, now)
    if (gone > 0) this.#parts.lanes.clear()
    return gone
  }

  /** Checks arguments, then does something in a transaction. */
  async #write<T>(check: () => void, work: (now: number) => T): Promise<T> {
    check()
    return this.#parts.commits.write(() => {
      this.#parts.lanes.begin()
      return work(this.#parts.now())
    })
  }

  #change<T>(id: string, check: () => void, work: (state: RunState, now: number) => T): Promise<T> {
    return this.#write(
      () => {
        checkRunId(id)
        check()
      },
      now => work(loadRun(this.#tables, id), now),
    )
  }

  /** Ends a run if nothing is left to do, and stops it if its budget is exceeded. */
  #addUp(before: RunState, now: number): RunState {
    const result = checked(before, countsOf(this.#tables, before), now)
    if (isEnded(result.state) && !isEnded(before)) pauseRun(this.#tables, before, false, now)
    this.#enqueue(result.tasks, now)
    return saveChecked(this.#tables, before, result, now)
  }

  #save(state: RunState, now: number): RunRecord {
    saveRun(this.#tables, state)
    return this.#record(state, now)
  }

  #record(state: RunState, now: number): RunRecord {
    return runRecord(state, countsOf(this.#tables, state), now)
  }

  #makeLanes(state: RunState): void {
    const { kind, key } = lanesOf(state)
    for (const stage of state.stages) this.#parts.lanes.of(kind, stage, key)
  }

  /** Adds tasks. Tells of each whether it is new. */
  #enqueue(tasks: readonly NewTask[], now: number): boolean[] {
    const { lanes, makeId } = this.#parts
    if (tasks.length > 0) this.#parts.ring()
    return enqueue(this.#tables.tasks, lanes, tasks, now, makeId).map(({ isNew }) => isNew)
  }

  /** Cancels waiting items, up to a limit, and asks running ones to end. Returns how many have ended. */
  #cancelItems(state: RunState, limit: number, now: number): number {
    const { tasks, runs } = this.#tables
    const waiting = runs.waiting.all({ ...lanesOf(state), limit })
    const items = [...waiting, ...runs.running.all(lanesOf(state))]
    cancel(tasks, items, undefined, now)
    if (items.length > 0) this.#parts.ring()
    return waiting.length
  }

  /** Dead items that match, and waiting ones if they are to be moved. */
  #matching(
    { pipeline, run, stage, errorCode, diedUntil = Number.MAX_SAFE_INTEGER }: ReprocessFilter,
    limit: number,
    isMove: boolean,
  ): { readonly dead: readonly string[]; readonly waiting: readonly string[] } {
    const scope = {
      kind: itemKind(pipeline),
      key: run ?? null,
      category: stage ?? null,
      error_code: errorCode ?? null,
      until: diedUntil,
    }
    const dead = this.#tables.runs.deadItems.all({ ...scope, limit })
    const left = isMove ? limit - dead.length : 0
    return { dead, waiting: left > 0 ? this.#tables.runs.waitingItems.all({ ...scope, limit: left }) : [] }
  }

  /** Moves waiting items to another stage. */
  #move(ids: readonly string[], stage: string): void {
    const { tasks, runs } = this.#tables
    const book = new LaneBook(tasks)
    for (const id of ids) {
      const task = tasks.state.get(id)
      const from = task && this.#parts.lanes.lane(task.lane)
      if (task === undefined || from === undefined) continue
      const lane = this.#parts.lanes.of(from.kind, stage, from.key)
      runs.moveItem.run(lane, task.seq)
      book.move(task.lane, 'waiting', undefined)
      book.move(lane, undefined, 'waiting')
    }
    book.write()
  }
}
