import type { By } from '../contract/ledger.js'
import type { Page, PageRequest } from '../contract/list.js'
import type { TwinRule } from '../contract/operation-store.js'
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
} from '../contract/run-store.js'
import type { TaskRecord, TaskStatus } from '../contract/task.js'
import type { CountedRun, LockedRun } from '../port/run-port.js'
import type { Steps, Transactions, Tx } from '../port/steps.js'
import type { Item } from '../port/task-port.js'
import { checkNewTask, checkPage } from '../rules/check.js'
import { NEWEST, pageByTime, type TaskPlace, taskPlace } from '../rules/cursor.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import { cancelRunRecord, changeRunRecord, reprocessRecord } from '../rules/operator-record.js'
import { figuresOf, nextCheckAt } from '../rules/runs/budget.js'
import { commonest } from '../rules/runs/cause.js'
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
} from '../rules/runs/check-run.js'
import { RunExistsError, RunNotFoundError } from '../rules/runs/errors.js'
import { itemPage, itemScan } from '../rules/runs/item-page.js'
import { lanesOf, stageLanes } from '../rules/runs/items.js'
import {
  type Checked,
  cancelling,
  changed,
  checked,
  failedBy,
  isEnded,
  opened,
  readBy,
  refuseCancelling,
  reopened,
  stopped,
  taken,
} from '../rules/runs/run-rules.js'
import { type RunState, runRecord, statusOf, totalOf } from '../rules/runs/run-state.js'
import { addUpBatches, lockBatches, reopenBatches } from './batches.js'
import { redriveUnique } from './unique.js'

/** The most items that a check cancels, of a run that was cancelled. */
const SWEPT = 1000

/**
 * The runs of every store. A verb that changes a run locks it first. What it then reads has all that others committed before,
 * so of two processes that settle the last two items at once, the second to check sees both.
 */
export class Runs implements RunStore {
  readonly #store: Transactions
  readonly #ring: () => void

  constructor(store: Transactions, ring: () => void) {
    this.#store = store
    this.#ring = ring
  }

  async open(run: NewRun): Promise<RunRecord> {
    checkNewRun(run)
    return this.#store.write(function* (tx) {
      const now = yield* tx.clock.now()
      const state = opened(run, now)
      if (!(yield* tx.runs.open(state))) throw new RunExistsError(run.id)
      yield* tx.lanes.make(stageLanes(state))
      return runRecord(state, yield* tx.runs.counts(state), now)
    })
  }

  async get(id: string): Promise<RunRecord | undefined> {
    checkRunId(id)
    return this.#store.read(function* (tx) {
      const run = yield* tx.runs.get(id)
      return run && runRecord(run.state, run.counts, yield* tx.clock.now())
    })
  }

  async list(
    { pipeline, status }: { readonly pipeline?: string; readonly status?: RunStatus },
    { limit, after }: PageRequest,
  ): Promise<Page<RunRecord>> {
    checkPage({ limit })
    checkRunStatus(status)
    const before = after === undefined ? NEWEST : taskPlace(after)
    return this.#store.read(function* (tx) {
      const now = yield* tx.clock.now()
      let place = before
      const found: CountedRun[] = []
      for (let isMore = true; isMore && found.length <= limit; ) {
        const runs = yield* tx.runs.list(pipeline, place, limit + 1)
        found.push(...runs.filter(({ state }) => status === undefined || statusOf(state, now) === status))
        const last = runs.at(-1)?.state
        isMore = runs.length > limit && last !== undefined
        if (last !== undefined) place = { changedAt: last.createdAt, id: last.id }
      }
      const records = found.map(({ state, counts }) => runRecord(state, counts, now))
      return pageByTime(records, limit, ({ createdAt }) => createdAt)
    })
  }

  async read(id: string, reader: string, leaseMs: number): Promise<RunRecord> {
    checkReader(reader, leaseMs)
    return this.#change(id, (tx, { state, now }) => save(tx, readBy(state, reader, leaseMs, now), now))
  }

  async take(id: string, chunk: Chunk): Promise<RunRecord> {
    checkChunk(chunk)
    const run = await this.#change(id, function* (tx, { state: before, now }) {
      const { state, items } = taken(before, chunk, now)
      items.forEach(checkNewTask)
      const isNew = yield* tx.tasks.enqueue(items, now)
      const fresh = items.flatMap((item, n) => (isNew[n] ? { id: item.id, position: before.position + n } : []))
      if (state.hasOwnIds) yield* tx.runs.addItems(id, fresh)
      return yield* save(tx, { ...state, duplicates: state.duplicates + items.length - fresh.length }, now)
    })
    if (chunk.items.length > 0) this.#ring()
    return run
  }

  async check(id: string): Promise<RunRecord> {
    const { run, isNews } = await this.#change(id, function* (tx, { state, now }) {
      if (state.phase === 'cancelling') yield* cancelItems(tx, state, SWEPT, now)
      const after = yield* addUp(tx, state, now)
      return { run: runRecord(after.state, after.counts, now), isNews: state.phase === 'cancelling' || after.isNews }
    })
    if (isNews) this.#ring()
    return run
  }

  async change(id: string, change: RunChange, by?: By): Promise<RunRecord> {
    checkRunChange(change, by)
    const run = await this.#change(id, function* (tx, { state: before, now }) {
      const { state, isPaused } = changed(before, change, yield* tx.runs.counts(before), now)
      yield* tx.lanes.make(stageLanes(state))
      if (isPaused !== undefined) yield* pauseRun(tx, state, isPaused, now, by)
      if (by !== undefined) yield* tx.audit.append(changeRunRecord(id, change, by, now), now)
      return yield* save(tx, state, now)
    })
    if (change.isPaused === false) this.#ring()
    return run
  }

  async items(id: string, page: PageRequest, status?: TaskStatus): Promise<Page<TaskRecord>> {
    checkRunId(id)
    checkPage(page)
    return this.#store.read(function* (tx) {
      const { state } = known(id, yield* tx.runs.get(id))
      const scan = itemScan(state, page)
      return itemPage(state, scan, yield* tx.runs.items(state, scan, status, page.limit), page.limit)
    })
  }

  async cancel(id: string, limit: number, by: By): Promise<{ readonly cancelled: number; readonly left: number }> {
    checkCancel(limit, by)
    const answer = await this.#change(id, function* (tx, { state: before, now }) {
      const state = cancelling(before, now)
      yield* tx.runs.save(state)
      if (before.phase === 'open') {
        yield* pauseRun(tx, state, true, now, by)
        yield* tx.audit.append(cancelRunRecord(id, by, now), now)
      }
      const cancelled = yield* cancelItems(tx, state, limit, now)
      const { counts } = yield* addUp(tx, state, now)
      return { cancelled, left: totalOf(counts).waiting }
    })
    this.#ring()
    return answer
  }

  async reprocess(
    filter: ReprocessFilter,
    { by, limit, as: stage }: ReprocessOptions,
  ): Promise<{ readonly moved: number; readonly reopened: readonly string[] }> {
    checkReprocess(filter, { by, limit, ...(stage !== undefined && { as: stage }) })
    const as = stage === filter.stage ? undefined : stage
    const answer = await this.#store.write(function* (tx) {
      const found = yield* matching(tx, filter, limit, as !== undefined)
      const runs = yield* lockRuns(tx, yield* tx.tasks.itemsOf([...found.dead, ...found.waiting]))
      for (const { state } of runs.values()) refuseCancelling(state)
      // Others may have been faster. With the runs locked, nobody is now.
      const { dead, waiting } = yield* matching(tx, filter, limit, as !== undefined)
      const known = yield* tx.tasks.itemsOf([...dead, ...waiting])
      const items = [...known.values()].filter(({ run }) => runs.has(run))
      const now = yield* tx.clock.now()
      const isDead = new Set(dead)
      const deadIds = items.flatMap(({ id }) => (isDead.has(id) ? id : []))
      const redriven = yield* tx.tasks.redrive(deadIds, by, now)
      if (as !== undefined) yield* tx.runs.moveItems(idsOf(items), as)
      const again = yield* reopen(tx, runs, among(known, redriven), as)
      if (items.length > 0)
        yield* tx.audit.append(reprocessRecord({ ...filter, as }, items.length, again, by, now), now)
      return { moved: items.length, reopened: again }
    })
    if (answer.moved > 0) this.#ring()
    return answer
  }

  async outputs(id: string, limit: number): Promise<readonly OutputRow[]> {
    checkRunId(id)
    checkPage({ limit })
    return this.#store.read(function* (tx) {
      known(id, yield* tx.runs.get(id))
      return yield* tx.runs.outputs(id, limit)
    })
  }

  async written(id: string, ids: readonly string[], outputBytes: number): Promise<void> {
    checkWritten(ids, outputBytes)
    await this.#change(id, function* (tx, { state }) {
      yield* tx.runs.removeOutputs(id, ids)
      yield* tx.runs.save({ ...state, outputBytes })
    })
  }

  /** Changes a run in one transaction, under its lock. */
  async #change<T>(id: string, body: (tx: Tx, run: LockedRun) => Steps<T>): Promise<T> {
    checkRunId(id)
    return this.#store.write(function* (tx) {
      return yield* body(tx, known(id, yield* tx.runs.lock(id)))
    })
  }
}

/**
 * Redrives tasks of which some may be items, and opens their runs and batches again. Leaves items alone whose run is being cancelled or
 * forgotten: they would be cancelled or deleted at once. Returns the ids that it moved.
 */
export function* redriveTasks(
  tx: Tx,
  ids: readonly string[],
  by: By,
  now: number,
  part?: PartOfOperation,
  twin?: TwinRule,
): Steps<string[]> {
  const batches = yield* lockBatches(tx, ids)
  const items = yield* tx.tasks.itemsOf(ids)
  const runs = yield* lockRuns(tx, items)
  const isMeant = (id: string) => {
    const item = items.get(id)
    return item === undefined || (runs.get(item.run)?.state.phase ?? 'cancelling') !== 'cancelling'
  }
  const moved = yield* redriveUnique(tx, ids.filter(isMeant), by, now, { part, twin })
  yield* reopen(tx, runs, among(items, moved))
  yield* reopenBatches(tx, batches, moved, by, now)
  return moved
}

/** Cancels tasks of which some may be items, and ends the runs and batches whose last tasks they were. Returns the ids that end. */
export function* cancelTasks(tx: Tx, ids: readonly string[], by: By | undefined, now: number): Steps<string[]> {
  const batches = yield* lockBatches(tx, ids)
  const runs = yield* lockRuns(tx, yield* tx.tasks.itemsOf(ids))
  const ending = yield* tx.tasks.cancel(ids, by, now)
  for (const { state } of runs.values()) yield* addUp(tx, state, now)
  yield* addUpBatches(tx, batches, now)
  return ending
}

/**
 * Gives up waiting tasks of which some may be items or members of batches. Ends or stops their runs, and ends their batches, since
 * no process may look after these.
 */
export function* expireTasks(tx: Tx, tasks: readonly TaskPlace[], now: number): Steps<string[]> {
  const ids = tasks.map(({ id }) => id)
  const batches = yield* lockBatches(tx, ids)
  const runs = yield* lockRuns(tx, yield* tx.tasks.itemsOf(ids))
  const expired = yield* tx.tasks.expire(tasks, now)
  for (const { state } of runs.values()) yield* addUp(tx, state, now)
  yield* addUpBatches(tx, batches, now)
  return expired
}

/** The result of a look at the budget of a run. */
export interface BudgetLook {
  /** Whether the look has stopped the run. */
  readonly isStopped: boolean
  /** How many items may end before the next look. */
  readonly left: number
}

/** Looks at the budget of a run whose items were settled. */
export function* lookAtBudget(tx: Tx, id: string): Steps<BudgetLook> {
  const run = yield* tx.runs.lock(id)
  if (run === undefined) return { isStopped: false, left: 1 }
  const { state, now } = run
  const counts = yield* tx.runs.counts(state)
  const result = checked(state, counts, now)
  // No settlement ends a run.
  if (isEnded(result.state)) return { isStopped: false, left: 1 }
  yield* saveChecked(tx, state, result, now)
  const { budget, settings } = result.state
  const left = nextCheckAt(budget, settings) - figuresOf(state, counts, now).processed
  return { isStopped: result.exceeded !== undefined, left }
}

/** Pauses the lanes of a run, or takes its pause back. */
function* pauseRun(tx: Tx, state: RunState, isPaused: boolean, now: number, by?: By): Steps<void> {
  if (isPaused) yield* tx.lanes.pause(lanesOf(state), true, now, by)
  else yield* tx.lanes.endPause(lanesOf(state))
}

function known<Run>(id: string, run: Run | undefined): Run {
  if (run === undefined) throw new RunNotFoundError(id)
  return run
}

function* save(tx: Tx, state: RunState, now: number): Steps<RunRecord> {
  yield* tx.runs.save(state)
  return runRecord(state, yield* tx.runs.counts(state), now)
}

/** Ends a run that is locked if nothing is left to do, and stops it if its budget is exceeded. */
function* addUp(tx: Tx, before: RunState, now: number): Steps<CountedRun & { readonly isNews: boolean }> {
  const counts = yield* tx.runs.counts(before)
  const result = checked(before, counts, now)
  if (isEnded(result.state) && !isEnded(before)) yield* pauseRun(tx, before, false, now)
  yield* tx.tasks.enqueue(result.tasks, now)
  return { state: yield* saveChecked(tx, before, result, now), counts, isNews: result.tasks.length > 0 }
}

/** Saves a run after a check, unless nothing has changed: with the cause if it has failed, and stopped if its budget is exceeded. */
function* saveChecked(tx: Tx, before: RunState, { state, hasFailed, exceeded }: Checked, now: number): Steps<RunState> {
  let after = state
  if (hasFailed) after = failedBy(state, commonest(yield* tx.runs.deaths(state, { since: state.createdAt })))
  if (exceeded !== undefined) {
    yield* pauseRun(tx, state, true, now)
    after = stopped(state, exceeded, commonest(yield* tx.runs.deaths(state, exceeded)), now)
  }
  if (after !== before) yield* tx.runs.save(after)
  return after
}

/** Cancels waiting items, up to a limit, and asks running ones to end. Returns how many have ended. */
function* cancelItems(tx: Tx, state: RunState, limit: number, now: number): Steps<number> {
  const waiting = yield* tx.runs.waitingItems({ pipeline: state.pipeline, run: state.id }, limit)
  const running = yield* tx.runs.runningItems(state)
  yield* tx.tasks.cancel([...waiting, ...running], undefined, now)
  return waiting.length
}

/** Dead items that match, and waiting ones if they are to be moved. */
function* matching(
  tx: Tx,
  filter: ReprocessFilter,
  limit: number,
  isMove: boolean,
): Steps<{ readonly dead: readonly string[]; readonly waiting: readonly string[] }> {
  const dead = yield* tx.runs.deadItems(filter, limit)
  const left = isMove ? limit - dead.length : 0
  return { dead, waiting: left > 0 ? yield* tx.runs.waitingItems(filter, left) : [] }
}

/** Locks the runs of items, in the order of their ids, so that nobody deadlocks. */
function* lockRuns(tx: Tx, items: ReadonlyMap<string, Item>): Steps<ReadonlyMap<string, LockedRun>> {
  const runs = new Map<string, LockedRun>()
  for (const id of [...new Set([...items.values()].map(({ run }) => run))].sort()) {
    const run = yield* tx.runs.lock(id)
    if (run !== undefined) runs.set(id, run)
  }
  return runs
}

/** Opens runs again after these dead items were redriven, at the stage `as` if it is given. Returns those that had ended. */
function* reopen(
  tx: Tx,
  runs: ReadonlyMap<string, LockedRun>,
  items: readonly Item[],
  as?: string,
): Steps<readonly string[]> {
  const again: string[] = []
  for (const { state, now } of runs.values()) {
    const redriven = items
      .filter(({ run }) => run === state.id)
      .map(({ stage, changedAt }) => ({ stage, diedAt: changedAt, to: as ?? stage }))
    if (redriven.length === 0) continue
    yield* tx.runs.save(reopened(state, redriven, yield* tx.runs.counts(state), now))
    if (isEnded(state)) again.push(state.id)
  }
  return again
}

function among(items: ReadonlyMap<string, Item>, ids: readonly string[]): Item[] {
  return ids.flatMap(id => items.get(id) ?? [])
}

function idsOf(items: readonly Item[]): string[] {
  return items.map(({ id }) => id)
}
