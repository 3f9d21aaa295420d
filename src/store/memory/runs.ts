import { checkNewTask, checkPage } from '../check.js'
import { numberPlace, taskPlace } from '../cursor.js'
import type { By } from '../ledger.js'
import type { Page, PageRequest } from '../list.js'
import { cancelRunRecord, changeRunRecord, reprocessRecord } from '../operator-record.js'
import type {
  BudgetStop,
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
import { type Exceeded, nextCheckAt, type RedrivenItem } from '../runs/budget.js'
import { commonest, type Deaths } from '../runs/cause.js'
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
import { itemKind, lanesOf } from '../runs/items.js'
import {
  cancelling,
  changed,
  checked,
  failedBy,
  isEnded,
  isForgettable,
  opened,
  readBy,
  refuseCancelling,
  reopened,
  stopped,
  taken,
} from '../runs/run-rules.js'
import { type RunState, runRecord, statusOf, totalOf } from '../runs/run-state.js'
import type { Retention } from '../store.js'
import type { TaskRecord, TaskStatus } from '../task.js'
import { noTasks } from '../task-state.js'
import type { MemoryItems } from './items.js'
import type { MemoryTask } from './task.js'

/** A run in the memory store: its record, which is replaced and never changed, and what goes with it. */
interface MemoryRun {
  state: RunState
  /** Its items by stage and status. */
  readonly counts: Map<string, Record<TaskStatus, number>>
  /** The ids of its items, in the order of the source. */
  readonly items: string[]
  /** Succeeded items that have not been written out. */
  readonly outputs: Set<string>
  /** How many of its items have succeeded, were skipped or are dead. */
  processed: number
  /** The budget is looked at once this many are. */
  nextCheck: number
}

/** The runs of the memory store. Each verb runs in one go, so it is a transaction by itself. */
export class MemoryRuns implements RunStore {
  readonly #runs = new Map<string, MemoryRun>()
  /** Runs that their budget has stopped since the last call of `takeStopped`. */
  #stopped = new Set<string>()
  readonly #items: MemoryItems
  readonly #now: () => number

  constructor(items: MemoryItems, now: () => number) {
    this.#items = items
    this.#now = now
  }

  async open(run: NewRun): Promise<RunRecord> {
    checkNewRun(run)
    if (this.#runs.has(run.id)) throw new RunExistsError(run.id)
    const state = opened(structuredClone(run), this.#now())
    const nextCheck = nextCheckAt(state.budget, state.settings)
    const known = { state, counts: new Map(), items: [], outputs: new Set<string>(), processed: 0, nextCheck }
    this.#runs.set(run.id, known)
    this.#makeLanes(state)
    return this.#record(known)
  }

  async get(id: string): Promise<RunRecord | undefined> {
    checkRunId(id)
    const run = this.#runs.get(id)
    return run === undefined || run.state.isForgotten ? undefined : this.#record(run)
  }

  async list(
    { pipeline, status }: { readonly pipeline?: string; readonly status?: RunStatus },
    page: PageRequest,
  ): Promise<Page<RunRecord>> {
    checkPage(page)
    checkRunStatus(status)
    const now = this.#now()
    const after = page.after === undefined ? undefined : taskPlace(page.after)
    const isMeant = ({ state }: MemoryRun) =>
      !state.isForgotten &&
      (pipeline === undefined || state.pipeline === pipeline) &&
      (status === undefined || statusOf(state, now) === status) &&
      (after === undefined || isNewer({ createdAt: after.changedAt, id: after.id }, state))
    const found = [...this.#runs.values()].filter(isMeant).sort((a, b) => (isNewer(a.state, b.state) ? -1 : 1))
    const items = found.slice(0, page.limit).map(run => this.#record(run))
    const last = items.at(-1)
    return found.length > page.limit && last !== undefined ? { items, next: `${last.createdAt}:${last.id}` } : { items }
  }

  async read(id: string, reader: string, leaseMs: number): Promise<RunRecord> {
    checkReader(reader, leaseMs)
    const run = this.#run(id)
    return this.#save(run, readBy(run.state, reader, leaseMs, this.#now()))
  }

  async take(id: string, chunk: Chunk): Promise<RunRecord> {
    checkChunk(chunk)
    const run = this.#run(id)
    const now = this.#now()
    const { state, items } = taken(run.state, chunk, now)
    items.forEach(checkNewTask)
    const fresh = items.filter(item => this.#items.add(item, now).isNew)
    for (const item of fresh) run.items.push(item.id)
    if (fresh.length > 0) this.#items.ring()
    return this.#save(run, { ...state, duplicates: state.duplicates + items.length - fresh.length })
  }

  async check(id: string): Promise<RunRecord> {
    const run = this.#run(id)
    const now = this.#now()
    if (run.state.phase === 'cancelling') this.#cancelWaiting(run, Infinity, now)
    this.#addUp(run, now)
    return this.#record(run)
  }

  async change(id: string, change: RunChange, by?: By): Promise<RunRecord> {
    checkRunChange(change, by)
    const run = this.#run(id)
    const now = this.#now()
    const { state, isPaused } = changed(run.state, structuredClone(change), run.counts, now)
    this.#save(run, state)
    this.#makeLanes(state)
    this.#pause(state, isPaused, by)
    if (by !== undefined) this.#items.record(changeRunRecord(id, change, by, now))
    return this.#record(run)
  }

  async items(id: string, page: PageRequest, status?: TaskStatus): Promise<Page<TaskRecord>> {
    checkPage(page)
    const { items } = this.#run(id)
    const found: TaskRecord[] = []
    let place = page.after === undefined ? 0 : numberPlace(page.after)
    for (; place < items.length && found.length < page.limit; place++) {
      const record = this.#items.tasks.get(items[place] ?? '')?.record
      if (record !== undefined && (status === undefined || record.status === status)) found.push(record)
    }
    return place < items.length ? { items: found, next: String(place) } : { items: found }
  }

  async cancel(id: string, limit: number, by: By): Promise<{ readonly cancelled: number; readonly left: number }> {
    checkCancel(limit, by)
    const run = this.#run(id)
    const now = this.#now()
    const isNew = run.state.phase === 'open'
    this.#save(run, cancelling(run.state, now))
    if (isNew) {
      this.#pause(run.state, true, by)
      this.#items.record(cancelRunRecord(id, by, now))
    }
    const cancelled = this.#cancelWaiting(run, limit, now)
    this.#addUp(run, now)
    return { cancelled, left: totalOf(run.counts).waiting }
  }

  async reprocess(
    filter: ReprocessFilter,
    options: ReprocessOptions,
  ): Promise<{ readonly moved: number; readonly reopened: readonly string[] }> {
    checkReprocess(filter, options)
    const { by, limit } = options
    const as = options.as === filter.stage ? undefined : options.as
    const now = this.#now()
    const found = this.#matching(filter, as !== undefined).slice(0, limit)
    const runs = [...new Set(found.map(({ record }) => record.key))].map(id => this.#run(id))
    for (const { state } of runs) refuseCancelling(state)
    const deaths = found.flatMap(({ record }) =>
      record.status === 'dead' ? [{ ...deathOf(record, as), run: record.key }] : [],
    )
    for (const task of found) {
      if (task.record.status === 'dead') this.#items.redrive(task, by, now)
      if (as !== undefined) this.#items.move(task.record.id, as, now)
    }
    const deathsIn = (id: string) => deaths.filter(({ run }) => run === id)
    const again = runs.map(({ state }) => state.id).filter(id => this.reopen(id, deathsIn(id)))
    if (found.length > 0) {
      this.#items.record(reprocessRecord({ ...filter, as }, found.length, again, by, now))
      this.#items.ring()
    }
    return { moved: found.length, reopened: again }
  }

  async outputs(id: string, limit: number): Promise<readonly OutputRow[]> {
    checkPage({ limit })
    const { outputs } = this.#run(id)
    return [...outputs].slice(0, limit).map(item => ({ id: item, result: this.#items.tasks.get(item)?.record.result }))
  }

  async written(id: string, ids: readonly string[], outputBytes: number): Promise<void> {
    checkWritten(ids, outputBytes)
    const run = this.#run(id)
    for (const item of ids) run.outputs.delete(item)
    this.#save(run, { ...run.state, outputBytes })
  }

  /** Notes that an item has changed; without `after`, that it was deleted. Checks the budget where it is due. */
  moved(before: TaskRecord | undefined, after: TaskRecord | undefined, now: number): void {
    const run = this.#runs.get((after ?? before)?.key ?? '')
    if (run === undefined) return
    if (before !== undefined) count(run, before, -1)
    if (after !== undefined) count(run, after, 1)
    if (after?.status === 'succeeded' && run.state.hasOutput) run.outputs.add(after.id)
    if (run.processed < run.nextCheck) return
    const { state, exceeded } = checked(run.state, run.counts, now)
    // No settlement ends a run.
    if (isEnded(state)) return
    this.#save(run, state)
    if (exceeded !== undefined) this.#stop(run, exceeded, now)
  }

  /** The runs that their budget has stopped since the last call. */
  takeStopped(): ReadonlySet<string> {
    const stopped = this.#stopped
    if (stopped.size > 0) this.#stopped = new Set()
    return stopped
  }

  /** Items of a run were cancelled. It ends if they were the last. */
  itemsCancelled(id: string, now: number): void {
    const run = this.#runs.get(id)
    if (run !== undefined) this.#addUp(run, now)
  }

  /** Whether a run is being cancelled or forgotten. Its dead items are left alone: redriven, they would end at once. */
  isEnding(id: string): boolean {
    const state = this.#runs.get(id)?.state
    return state === undefined || state.isForgotten || state.phase === 'cancelling'
  }

  /** Opens a run again after some of its dead items were redriven. Returns whether it had ended. */
  reopen(id: string, redriven: readonly RedrivenItem[]): boolean {
    const run = this.#runs.get(id)
    if (run === undefined) return false
    const hadEnded = isEnded(run.state)
    this.#save(run, reopened(run.state, redriven, run.counts, this.#now()))
    return hadEnded
  }

  /** Forgets runs that ended long ago, with up to this many items. Returns how many items and runs it deleted. */
  prunable(keep: Retention): { readonly runs: number; readonly items: number } {
    const now = this.#now()
    const old = [...this.#runs.values()].filter(({ state }) => state.isForgotten || isForgettable(state, keep, now))
    return { runs: old.length, items: old.reduce((sum, { items }) => sum + items.length, 0) }
  }

  prune(keep: Retention, limit: number): number {
    const now = this.#now()
    let left = limit
    for (const run of this.#runs.values()) {
      if (!run.state.isForgotten && !isForgettable(run.state, keep, now)) continue
      if (left === 0) break
      run.state = { ...run.state, isForgotten: true }
      for (; left > 0 && run.items.length > 0; left--) this.#items.forget(run.items.pop() ?? '')
      if (left === 0) break
      this.#items.lanes.forget(lanesOf(run.state))
      this.#runs.delete(run.state.id)
      left--
    }
    return limit - left
  }

  #run(id: string): MemoryRun {
    checkRunId(id)
    const run = this.#runs.get(id)
    if (run === undefined || run.state.isForgotten) throw new RunNotFoundError(id)
    return run
  }

  /** Ends a run if nothing is left to do, and stops it if its budget is exceeded. */
  #addUp(run: MemoryRun, now: number): void {
    const { state, tasks, hasFailed, exceeded } = checked(run.state, run.counts, now)
    const hasEnded = isEnded(state) && !isEnded(run.state)
    this.#save(run, hasFailed ? failedBy(state, this.#cause(run, {})) : state)
    if (hasEnded) this.#items.lanes.endPause(lanesOf(state))
    for (const task of tasks) this.#items.add(task, now)
    if (tasks.length > 0) this.#items.ring()
    if (exceeded !== undefined) this.#stop(run, exceeded, now)
  }

  #save(run: MemoryRun, state: RunState): RunRecord {
    run.state = state
    run.nextCheck = isEnded(state) ? Infinity : nextCheckAt(state.budget, state.settings)
    return this.#record(run)
  }

  #record({ state, counts }: MemoryRun): RunRecord {
    return structuredClone(runRecord(state, counts, this.#now()))
  }

  #makeLanes(state: RunState): void {
    for (const category of state.stages) this.#items.lanes.of({ ...lanesOf(state), category })
  }

  #pause(state: RunState, isPaused: boolean | undefined, by?: By): void {
    if (isPaused === true) this.#items.lanes.pause(lanesOf(state), { isPaused, at: this.#now(), by })
    if (isPaused === false) this.#items.lanes.endPause(lanesOf(state))
    if (isPaused === false) this.#items.ring()
  }

  #stop(run: MemoryRun, exceeded: Exceeded, now: number): void {
    this.#stopped.add(run.state.id)
    this.#save(run, stopped(run.state, exceeded, this.#cause(run, exceeded), now))
    this.#pause(run.state, true)
  }

  /** The commonest failure among its dead items, of those that died in a stage or since a time. */
  #cause(run: MemoryRun, { since = 0, stage: place }: Partial<Exceeded>): BudgetStop['cause'] {
    const deaths = new Map<string, Deaths>()
    for (const id of run.items) {
      const record = this.#items.tasks.get(id)?.record
      if (record?.status !== 'dead' || record.changedAt < since) continue
      if (place !== undefined && place !== record.category) continue
      const { errorCode, category: stage } = record
      const name = JSON.stringify([errorCode, stage])
      deaths.set(name, { errorCode, stage, count: (deaths.get(name)?.count ?? 0) + 1 })
    }
    return commonest([...deaths.values()])
  }

  /** Cancels waiting items, up to a limit, and asks running ones to end. Returns how many have ended. */
  #cancelWaiting(run: MemoryRun, limit: number, now: number): number {
    let cancelled = 0
    for (const id of run.items) {
      const task = this.#items.tasks.get(id)
      const isWaiting = task?.record.status === 'waiting'
      if (task === undefined || task.isToBeCancelled || (isWaiting && cancelled >= limit)) continue
      if (!this.#items.cancel(task, now)) continue
      if (isWaiting) cancelled++
      this.#items.ring()
    }
    return cancelled
  }

  /** Dead items that match, and waiting ones if they are to be moved. */
  #matching(filter: ReprocessFilter, isMove: boolean): MemoryTask[] {
    const { pipeline, run, stage, errorCode, diedUntil = Infinity } = filter
    return [...this.#items.tasks.values()].filter(({ record }) => {
      const isDead = record.status === 'dead' && record.changedAt <= diedUntil
      return (
        (isDead || (isMove && record.status === 'waiting')) &&
        record.kind === itemKind(pipeline) &&
        (run === undefined || record.key === run) &&
        (stage === undefined || record.category === stage) &&
        (errorCode === undefined || record.errorCode === errorCode) &&
        this.#runs.get(record.key)?.state.isForgotten === false
      )
    })
  }
}

/** The death of an item that is about to be redriven, at another stage if `as` names one. */
export function deathOf({ category: stage, changedAt: diedAt }: TaskRecord, as?: string): RedrivenItem {
  return { stage, diedAt, to: as ?? stage }
}

function count(run: MemoryRun, { category, status }: TaskRecord, change: 1 | -1): void {
  let counts = run.counts.get(category)
  if (counts === undefined) {
    counts = noTasks()
    run.counts.set(category, counts)
  }
  counts[status] += change
  if (status === 'succeeded' || status === 'skipped' || status === 'dead') run.processed += change
}

function isNewer(
  a: { readonly createdAt: number; readonly id: string },
  b: { readonly createdAt: number; readonly id: string },
): boolean {
  return a.createdAt === b.createdAt ? a.id > b.id : a.createdAt > b.createdAt
}
