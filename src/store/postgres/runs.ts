import { checkNewTask, checkPage } from '../check.js'
import { taskPlace } from '../cursor.js'
import type { By } from '../ledger.js'
import type { Page, PageRequest } from '../list.js'
import type { PartOfOperation } from '../operations/operation-rules.js'
import { cancelRecord, cancelRunRecord, changeRunRecord, reprocessRecord } from '../operator-record.js'
import { type TaskRow, taskColumns } from '../rows.js'
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
import { figuresOf, nextCheckAt } from '../runs/budget.js'
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
import { RunExistsError, RunNotFoundError } from '../runs/errors.js'
import { itemPage, itemScan } from '../runs/item-page.js'
import { itemKind, lanesOf, mayBeItem } from '../runs/items.js'
import { runState } from '../runs/run-row.js'
import { cancelling, changed, checked, isEnded, opened, readBy, refuseCancelling, taken } from '../runs/run-rules.js'
import { type RunState, runRecord } from '../runs/run-state.js'
import type { Retention } from '../store.js'
import type { TaskRecord, TaskStatus } from '../task.js'
import { State, statusOf as taskStatusOf } from '../task-state.js'
import { recordOf } from './browse.js'
import { answerOf, type Database, int4, LONG, wholeMs } from './database.js'
import type { Enqueues } from './enqueue.js'
import { byValues, inOrder } from './operators.js'
import {
  type Call,
  type CountsRow,
  countsOf,
  type ItemRow,
  type LockedRun,
  lockedRun,
  lockRun,
  pauseRun,
  reopenRuns,
  runJson,
  saveRun,
  stageCounts,
  withCause,
} from './run-records.js'
import type { Signals } from './signals.js'
import { storable } from './text.js'

/** The most items that a check cancels, of a run that was cancelled. */
const SWEPT = 1000

const NEWEST = { changedAt: Number.MAX_SAFE_INTEGER, id: '' }

/**
 * The runs of a PostgreSQL store. A verb that changes a run locks it first. What it then reads has all that others committed
 * before, so of two processes that settle the last two items at once, the second to check sees both.
 */
export class PostgresRuns implements RunStore {
  readonly #database: Database
  readonly #enqueues: Enqueues
  readonly #signals: Signals

  constructor(database: Database, enqueues: Enqueues, signals: Signals) {
    this.#database = database
    this.#enqueues = enqueues
    this.#signals = signals
  }

  async open(run: NewRun): Promise<RunRecord> {
    checkNewRun(run)
    return this.#database.callTogether(async call => {
      const now = Number(await call('now_ms', [this.#database.at]))
      const state = opened(run, now)
      if ((await call('open_run', [runJson(state)])) !== true) throw new RunExistsError(run.id)
      await this.#makeLanes(call, state)
      return runRecord(state, await countsOf(call, state), now)
    })
  }

  async get(id: string): Promise<RunRecord | undefined> {
    checkRunId(id)
    const { now, runs } = await this.#read([id, null, null, null, null])
    const [run] = runs
    return run && runRecord(runState(run.state), stageCounts(run.counts), now)
  }

  async list(
    { pipeline, status }: { readonly pipeline?: string; readonly status?: RunStatus },
    { limit, after }: PageRequest,
  ): Promise<Page<RunRecord>> {
    checkPage({ limit })
    checkRunStatus(status)
    const found: RunRecord[] = []
    let { changedAt, id } = after === undefined ? NEWEST : taskPlace(after)
    for (let isMore = true; isMore && found.length <= limit; ) {
      const { now, runs } = await this.#read([null, pipeline ?? null, changedAt, id, limit + 1])
      const records = runs.map(run => runRecord(runState(run.state), stageCounts(run.counts), now))
      found.push(...records.filter(run => status === undefined || run.status === status))
      const last = records.at(-1)
      isMore = runs.length > limit && last !== undefined
      if (last !== undefined) ({ createdAt: changedAt, id } = last)
    }
    const items = found.slice(0, limit)
    const last = items.at(-1)
    return found.length > limit && last !== undefined ? { items, next: `${last.createdAt}:${last.id}` } : { items }
  }

  async read(id: string, reader: string, leaseMs: number): Promise<RunRecord> {
    checkReader(reader, leaseMs)
    return this.#change(id, (call, { state, now }) =>
      this.#save(call, readBy(state, reader, Math.ceil(leaseMs), now), now),
    )
  }

  async take(id: string, chunk: Chunk): Promise<RunRecord> {
    checkChunk(chunk)
    const run = await this.#change(id, async (call, { state: before, now }) => {
      const { state, items } = taken(before, chunk, now)
      items.forEach(checkNewTask)
      const added = await this.#enqueues.enqueueWith(call, items)
      const fresh = added.flatMap((item, index) => (item.isNew ? [{ ...item, position: before.position + index }] : []))
      if (state.hasOwnIds && fresh.length > 0) {
        await call('add_items', [id, fresh.map(({ position }) => position), fresh.map(item => item.id)])
      }
      return this.#save(call, { ...state, duplicates: state.duplicates + items.length - fresh.length }, now)
    })
    if (chunk.items.length > 0) this.#signals.ring()
    return run
  }

  async check(id: string): Promise<RunRecord> {
    const { run, isNews } = await this.#change(id, async (call, { state: before, now }) => {
      if (before.phase === 'cancelling') await this.#cancelItems(call, before, SWEPT)
      return this.#addUp(call, before, now)
    })
    if (isNews) this.#signals.ring()
    return run
  }

  /** Looks at the budget of a run. Returns whether that has stopped it, and how many items may end before the next look. */
  judge(id: string): Promise<{ readonly isStopped: boolean; readonly left: number }> {
    return this.#change(id, async (call, { state: before, now }) => {
      const counts = await countsOf(call, before)
      const result = checked(before, counts, now)
      // No settlement ends a run.
      if (isEnded(result.state)) return { isStopped: false, left: 1 }
      const { budget, settings } = result.state
      const left = nextCheckAt(budget, settings) - figuresOf(before, counts, now).processed
      const after = await withCause(call, result, now)
      if (after !== before) await saveRun(call, after)
      return { isStopped: result.exceeded !== undefined, left }
    })
  }

  async change(id: string, change: RunChange, by?: By): Promise<RunRecord> {
    checkRunChange(change, by)
    const run = await this.#change(id, async (call, { state: before, now }) => {
      const { state, isPaused } = changed(before, change, await countsOf(call, before), now)
      await this.#makeLanes(call, state)
      if (isPaused !== undefined) await pauseRun(call, state, isPaused, now, by)
      if (by !== undefined) await this.#record(call, changeRunRecord(id, change, by, now))
      return this.#save(call, state, now)
    })
    if (change.isPaused === false) this.#signals.ring()
    return run
  }

  async items(id: string, page: PageRequest, status?: TaskStatus): Promise<Page<TaskRecord>> {
    checkRunId(id)
    checkPage(page)
    const [run] = (await this.#read([id, null, null, null, null])).runs
    if (run === undefined) throw new RunNotFoundError(id)
    const state = runState(run.state)
    const scan = itemScan(state, page)
    const states = Object.values(State).filter(one => status === undefined || taskStatusOf(one) === status)
    const place = state.hasOwnIds ? [id, scan.from, scan.end] : [scan.afterId, scan.endId]
    const values = [states, page.limit, ...place]
    const answer = answerOf(await this.#database.query(state.hasOwnIds ? OWN_ITEMS : ITEMS, values, LONG))
    return itemPage(state, scan, JSON.parse(String(answer)) as TaskRow[], page.limit, recordOf)
  }

  async cancel(id: string, limit: number, by: By): Promise<{ readonly cancelled: number; readonly left: number }> {
    checkCancel(limit, by)
    const answer = await this.#change(id, async (call, { state: before, now }) => {
      const state = cancelling(before, now)
      await saveRun(call, state)
      if (before.phase === 'open') {
        await pauseRun(call, state, true, now, by)
        await this.#record(call, cancelRunRecord(id, by, now))
      }
      const cancelled = await this.#cancelItems(call, state, limit)
      const { run } = await this.#addUp(call, state, now)
      return { cancelled, left: run.counts.waiting }
    })
    this.#signals.ring()
    return answer
  }

  async reprocess(
    filter: ReprocessFilter,
    options: ReprocessOptions,
  ): Promise<{ readonly moved: number; readonly reopened: readonly string[] }> {
    checkReprocess(filter, options)
    const { by, limit } = options
    const as = options.as === filter.stage ? undefined : options.as
    const answer = await this.#database.callTogether(async call => {
      const found = await this.#matching(call, filter, limit, as !== undefined)
      const runs = await this.#lock(call, await this.#itemsOf(call, [...found.dead, ...found.waiting]))
      for (const { state } of runs.values()) refuseCancelling(state)
      // Others may have been faster. With the runs locked, nobody is now.
      const { dead, waiting } = await this.#matching(call, filter, limit, as !== undefined)
      const known = await this.#itemsOf(call, [...dead, ...waiting])
      const isLocked = (id: string) => runs.has(known.get(id)?.run ?? '')
      const items = [...dead, ...waiting].filter(isLocked)
      const redriven = await this.#redrive(call, dead.filter(isLocked), by)
      if (as !== undefined) await call('move_items', [items, as])
      const reopened = await reopenRuns(call, [...runs.values()], among(known, redriven), as)
      if (items.length > 0) {
        const now = [...runs.values()][0]?.now ?? 0
        await this.#record(call, reprocessRecord({ ...filter, as }, items.length, reopened, by, now))
      }
      return { moved: items.length, reopened }
    })
    if (answer.moved > 0) this.#signals.ring()
    return answer
  }

  async outputs(id: string, limit: number): Promise<readonly OutputRow[]> {
    checkRunId(id)
    checkPage({ limit })
    const { runs } = await this.#read([id, null, null, null, null])
    if (runs.length === 0) throw new RunNotFoundError(id)
    const rows = await this.#database.query(OUTPUTS, [id, limit], LONG)
    return (rows as { id: string; result: string | null }[]).map(row => ({ ...row, result: row.result ?? undefined }))
  }

  async written(id: string, ids: readonly string[], outputBytes: number): Promise<void> {
    checkWritten(ids, outputBytes)
    await this.#change(id, async (call, { state }) => {
      await call('remove_outputs', [id, ids])
      await saveRun(call, { ...state, outputBytes })
    })
  }

  /**
   * Redrives tasks of which some may be items, and opens their runs again. Leaves items alone whose run is being cancelled
   * or forgotten: they would be cancelled or deleted at once. Returns the ids that it moved.
   */
  async redrive(ids: readonly string[], by: By): Promise<string[]> {
    const moved = await this.#database.callTogether(call => this.redriveWith(call, ids, by))
    if (moved.length > 0) this.#signals.ring()
    return moved
  }

  /** The same within a transaction. As part of an operation, only tasks that died by a time. */
  async redriveWith(call: Call, ids: readonly string[], by: By, part?: PartOfOperation): Promise<string[]> {
    const known = await this.#itemsOf(call, ids)
    const runs = await this.#lock(call, known)
    const isOpen = (run: LockedRun | undefined) => run !== undefined && run.state.phase !== 'cancelling'
    const meant = ids.filter(id => {
      const item = known.get(id)
      return item === undefined || isOpen(runs.get(item.run))
    })
    const redriven = await this.#redrive(call, meant, by, part)
    await reopenRuns(call, [...runs.values()], among(known, redriven))
    return redriven
  }

  /** Cancels tasks of which some may be items, and ends the runs whose last items they were. Returns the ids that end. */
  async cancelTasks(ids: readonly string[], by: By | undefined): Promise<string[]> {
    const cancelled = await this.#database.callTogether(async call => {
      const ending = await this.cancelWith(call, ids, by)
      if (by !== undefined)
        await this.#record(call, cancelRecord(ending, by, Number(await call('now_ms', [this.#database.at]))))
      return ending
    })
    if (cancelled.length > 0) this.#signals.ring()
    return cancelled
  }

  /** The same within a transaction, without a record in the audit log. */
  async cancelWith(call: Call, ids: readonly string[], by: By | undefined): Promise<string[]> {
    const runs = await this.#lock(call, await this.#itemsOf(call, ids))
    const ending = inOrder(ids, await call('cancel', [ids, ...byValues(by), this.#database.at]))
    for (const { state, now } of runs.values()) await this.#addUp(call, state, now)
    return ending
  }

  /** Forgets runs that ended long enough ago. Returns how many items and runs it deleted. */
  async prune({ endedMs, deadMs }: Retention, limit: number): Promise<number> {
    if (endedMs === undefined) return 0
    const values = [wholeMs(endedMs), deadMs === undefined ? null : wholeMs(deadMs), int4(limit), this.#database.at]
    return Number(await this.#database.call('prune_runs', values, LONG))
  }

  /** Changes a run in one transaction, under its lock. */
  async #change<T>(id: string, work: (call: Call, run: LockedRun) => Promise<T>): Promise<T> {
    checkRunId(id)
    const { at } = this.#database
    return this.#database.callTogether(async call => work(call, await lockedRun(call, id, at)))
  }

  /** Ends a run that is locked if nothing is left to do, and stops it if its budget is exceeded. */
  async #addUp(call: Call, before: RunState, now: number): Promise<{ run: RunRecord; isNews: boolean }> {
    const counts = await countsOf(call, before)
    const result = checked(before, counts, now)
    if (isEnded(result.state) && !isEnded(before)) await pauseRun(call, result.state, false, now)
    await this.#enqueues.enqueueWith(call, result.tasks)
    const after = await withCause(call, result, now)
    if (after !== before) await saveRun(call, after)
    return { run: runRecord(after, counts, now), isNews: result.tasks.length > 0 }
  }

  async #save(call: Call, state: RunState, now: number): Promise<RunRecord> {
    await saveRun(call, state)
    return runRecord(state, await countsOf(call, state), now)
  }

  async #read(values: unknown[]): Promise<RunsAnswer> {
    return JSON.parse(String(await this.#database.call('read_runs', [...values, this.#database.at], LONG)))
  }

  async #record(call: Call, record: string): Promise<void> {
    await call('append_audit', [JSON.stringify([record]), this.#database.at])
  }

  async #makeLanes(call: Call, state: RunState): Promise<void> {
    const lanes = state.stages.map(category => ({ ...lanesOf(state), category }))
    await call('make_lanes', [JSON.stringify(lanes)])
  }

  /** Cancels waiting items, up to a limit, and asks running ones to end. Returns how many have ended. */
  async #cancelItems(call: Call, state: RunState, limit: number): Promise<number> {
    const { kind, key } = lanesOf(state)
    const waiting = (await call('waiting_items', [kind, key, null, null, limit])) as string[]
    const running = (await call('running_items', [kind, key])) as string[]
    await call('cancel', [[...waiting, ...running], ...byValues(undefined), this.#database.at])
    return waiting.length
  }

  /** Dead items that match, and waiting ones if they are to be moved. */
  async #matching(
    call: Call,
    { pipeline, run, stage, errorCode, diedUntil = Number.MAX_SAFE_INTEGER }: ReprocessFilter,
    limit: number,
    isMove: boolean,
  ): Promise<{ readonly dead: readonly string[]; readonly waiting: readonly string[] }> {
    const scope = [itemKind(pipeline), run ?? null, stage ?? null, storable(errorCode) ?? null]
    const dead = (await call('dead_items', [...scope, Math.floor(diedUntil), limit])) as string[]
    const left = isMove ? limit - dead.length : 0
    return { dead, waiting: left > 0 ? ((await call('waiting_items', [...scope, left])) as string[]) : [] }
  }

  /** The items among these tasks, by their ids. Tasks that are not items are left out, whatever their ids look like. */
  async #itemsOf(call: Call, ids: readonly string[]): Promise<ReadonlyMap<string, ItemRow>> {
    const few = ids.filter(mayBeItem)
    if (few.length === 0) return new Map()
    return new Map(((await call('item_runs', [few])) as ItemRow[]).map(item => [item.id, item]))
  }

  /** Locks the runs of items, in the order of their ids, so that nobody deadlocks. */
  async #lock(call: Call, items: ReadonlyMap<string, ItemRow>): Promise<ReadonlyMap<string, LockedRun>> {
    const runs = new Map<string, LockedRun>()
    for (const id of [...new Set([...items.values()].map(({ run }) => run))].sort()) {
      const run = await lockRun(call, id, this.#database.at)
      if (run !== undefined) runs.set(id, run)
    }
    return runs
  }

  async #redrive(call: Call, ids: readonly string[], by: By, part?: PartOfOperation): Promise<string[]> {
    const values = [ids, ...byValues(by), part?.operation ?? null, part?.diedUntil ?? null, this.#database.at]
    return inOrder(ids, await call('redrive', values))
  }
}

/** The items with these ids. */
function among(items: ReadonlyMap<string, ItemRow>, ids: readonly string[]): ItemRow[] {
  return ids.flatMap(id => items.get(id) ?? [])
}

interface RunsAnswer {
  readonly now: number
  readonly runs: readonly { readonly state: string; readonly counts: readonly CountsRow[] }[]
}

const ITEMS = /* sql */ `
  SELECT coalesce(json_agg(item), '[]')::text AS answer FROM (
    SELECT ${taskColumns()} FROM redrive.standing AS task JOIN redrive.lane ON lane.id = task.lane
    WHERE task.id > $3 AND task.id < $4 AND task.state = ANY ($1)
    ORDER BY task.id
    LIMIT $2
  ) AS item`

const OWN_ITEMS = /* sql */ `
  SELECT coalesce(json_agg(item), '[]')::text AS answer FROM (
    SELECT run_item.position, ${taskColumns()}
    FROM redrive.run_item JOIN redrive.standing AS task ON task.id = run_item.task
    JOIN redrive.lane ON lane.id = task.lane
    WHERE run_item.run = $3 AND run_item.position >= $4 AND run_item.position < $5 AND task.state = ANY ($1)
    ORDER BY run_item.position
    LIMIT $2
  ) AS item`

const OUTPUTS = /* sql */ `
  SELECT task.id, task.result FROM redrive.run_output JOIN redrive.task ON task.id = run_output.task
  WHERE run_output.run = $1
  LIMIT $2`
