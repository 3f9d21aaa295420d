import type { OutputRow, ReprocessFilter } from '../contract/run-store.js'
import type { Retention } from '../contract/store.js'
import type { TaskRecord, TaskStatus } from '../contract/task.js'
import type { CountedRun, DeathScope, ItemPosition, ItemRow, LockedRun, RunPort } from '../port/run-port.js'
import { runNow, type Tx } from '../port/steps.js'
import type { TaskPlace } from '../rules/cursor.js'
import { nextCheckAt } from '../rules/runs/budget.js'
import type { Deaths } from '../rules/runs/cause.js'
import type { ItemScan } from '../rules/runs/item-page.js'
import { itemId, itemKind, lanesOf } from '../rules/runs/items.js'
import { isEnded, isForgettable } from '../rules/runs/run-rules.js'
import type { RunState, StageCounts } from '../rules/runs/run-state.js'
import { noTasks } from '../rules/task-state.js'
import { lookAtBudget } from '../verbs/runs.js'
import type { MemoryTask } from './task.js'
import type { MemoryTasks } from './tasks.js'

/** A run in the memory store: its record, which is replaced and never changed, and what goes with it. */
interface MemoryRun {
  state: RunState
  /** Its items by stage and status. */
  readonly counts: Map<string, Record<TaskStatus, number>>
  /** The ids of its items, and their positions if they have ids of their own. */
  readonly items: string[]
  readonly positions: Map<number, string>
  /** Succeeded items that have not been written out. */
  readonly outputs: Set<string>
  /** How many of its items have succeeded, were skipped or are dead. */
  processed: number
}

/**
 * The runs of a memory store: their primitives, and what follows from the life of their items. Records are copied, so that
 * nobody changes them from outside.
 */
export class MemoryRuns implements RunPort {
  readonly #runs = new Map<string, MemoryRun>()
  /** Runs that their budget has stopped since the last call of `takeStopped`. */
  #stopped = new Set<string>()
  readonly #tasks: MemoryTasks

  constructor(tasks: MemoryTasks) {
    this.#tasks = tasks
  }

  open(state: RunState): boolean {
    if (this.#runs.has(state.id)) return false
    const none = { counts: new Map(), items: [], positions: new Map(), outputs: new Set<string>(), processed: 0 }
    this.#runs.set(state.id, { state: structuredClone(state), ...none })
    return true
  }

  get(id: string): CountedRun | undefined {
    const run = this.#find(id)
    return run && counted(run)
  }

  lock(id: string): LockedRun | undefined {
    const run = this.#find(id)
    return run && { state: run.state, now: this.#tasks.now() }
  }

  list(pipeline: string | undefined, before: TaskPlace, limit: number): CountedRun[] {
    return [...this.#runs.values()]
      .filter(({ state }) => !state.isForgotten && (pipeline === undefined || state.pipeline === pipeline))
      .filter(({ state }) => isNewer({ createdAt: before.changedAt, id: before.id }, state))
      .sort((a, b) => (isNewer(a.state, b.state) ? -1 : 1))
      .slice(0, limit)
      .map(counted)
  }

  save(state: RunState): void {
    const run = this.#runs.get(state.id)
    if (run !== undefined) run.state = structuredClone(state)
  }

  counts({ id }: RunState): StageCounts {
    return structuredClone(this.#find(id)?.counts ?? new Map())
  }

  addItems(run: string, items: readonly ItemPosition[]): void {
    for (const { id, position } of items) this.#find(run)?.positions.set(position, id)
  }

  items(state: RunState, { from, end }: ItemScan, status: TaskStatus | undefined, limit: number): ItemRow[] {
    const found = []
    for (let position = from; position < end && found.length < limit; position++) {
      const id = state.hasOwnIds ? this.#find(state.id)?.positions.get(position) : itemId(state.id, position)
      const record = this.#tasks.task(id ?? '')?.record
      if (record !== undefined && (status === undefined || record.status === status)) found.push({ record, position })
    }
    return found
  }

  deadItems(filter: ReprocessFilter, limit: number): string[] {
    return this.#matching(filter, 'dead', limit)
  }

  waitingItems(filter: ReprocessFilter, limit: number): string[] {
    return this.#matching(filter, 'waiting', limit)
  }

  runningItems({ id }: RunState): string[] {
    return this.#itemsOf(id).flatMap(({ record, isToBeCancelled }) =>
      record.status === 'running' && !isToBeCancelled ? record.id : [],
    )
  }

  moveItems(ids: readonly string[], stage: string): void {
    for (const id of ids) this.#tasks.move(id, stage, this.#tasks.now())
  }

  deaths({ id }: RunState, { since, stage }: DeathScope): Deaths[] {
    const died = this.#itemsOf(id).filter(
      ({ record: { status, changedAt, category } }) =>
        status === 'dead' && changedAt >= since && (stage === undefined || stage === category),
    )
    return deathsOf(died)
  }

  outputs(id: string, limit: number): OutputRow[] {
    const items = [...(this.#find(id)?.outputs ?? [])].slice(0, limit)
    return items.map(item => ({ id: item, result: this.#tasks.task(item)?.record.result }))
  }

  removeOutputs(id: string, ids: readonly string[]): void {
    for (const item of ids) this.#find(id)?.outputs.delete(item)
  }

  /** Notes that an item has changed; without `before`, that it is new. Checks the budget where it is due. */
  moved(tx: Tx, before: TaskRecord | undefined, after: TaskRecord): void {
    const run = this.#runs.get(after.key)
    if (run === undefined) return
    if (before === undefined) run.items.push(after.id)
    else count(run, before, -1)
    count(run, after, 1)
    if (after.status === 'succeeded' && run.state.hasOutput) run.outputs.add(after.id)
    const { budget, settings, id } = run.state
    const isDue = !isEnded(run.state) && run.processed >= nextCheckAt(budget, settings)
    if (isDue && runNow(lookAtBudget(tx, id)).isStopped) this.#stopped.add(id)
  }

  /** The runs that their budget has stopped since the last call. */
  takeStopped(): ReadonlySet<string> {
    const stopped = this.#stopped
    if (stopped.size > 0) this.#stopped = new Set()
    return stopped
  }

  /** The number of runs that a call of `prune` would forget, and of their items. */
  prunable(keep: Retention): { readonly runs: number; readonly items: number } {
    const now = this.#tasks.now()
    const old = [...this.#runs.values()].filter(({ state }) => state.isForgotten || isForgettable(state, keep, now))
    return { runs: old.length, items: old.reduce((sum, { items }) => sum + items.length, 0) }
  }

  /** Forgets runs that ended long ago, with up to this many items. Returns how many items and runs it deleted. */
  prune(keep: Retention, limit: number): number {
    const now = this.#tasks.now()
    let left = limit
    for (const run of this.#runs.values()) {
      if (!run.state.isForgotten && !isForgettable(run.state, keep, now)) continue
      if (left === 0) break
      run.state = { ...run.state, isForgotten: true }
      for (; left > 0 && run.items.length > 0; left--) this.#tasks.forget(run.items.pop() ?? '')
      if (left === 0) break
      this.#tasks.lanes.forget(lanesOf(run.state))
      this.#runs.delete(run.state.id)
      left--
    }
    return limit - left
  }

  #find(id: string): MemoryRun | undefined {
    const run = this.#runs.get(id)
    return run?.state.isForgotten === false ? run : undefined
  }

  #itemsOf(id: string): MemoryTask[] {
    return (this.#find(id)?.items ?? []).flatMap(item => this.#tasks.task(item) ?? [])
  }

  #matching(
    { pipeline, run, stage, errorCode, diedUntil = Infinity }: ReprocessFilter,
    status: 'dead' | 'waiting',
    limit: number,
  ): string[] {
    const found = [...this.#tasks.tasks.values()].filter(
      ({ record }) =>
        record.status === status &&
        (status === 'waiting' || record.changedAt <= diedUntil) &&
        record.kind === itemKind(pipeline) &&
        (run === undefined || record.key === run) &&
        (stage === undefined || record.category === stage) &&
        (errorCode === undefined || record.errorCode === errorCode) &&
        this.#find(record.key) !== undefined,
    )
    return found.slice(0, limit).map(({ record }) => record.id)
  }
}

function counted({ state, counts }: MemoryRun): CountedRun {
  return structuredClone({ state, counts })
}

function deathsOf(dead: readonly MemoryTask[]): Deaths[] {
  const deaths = new Map<string, Deaths>()
  for (const { record } of dead) {
    const { errorCode, category: stage } = record
    const name = JSON.stringify([errorCode, stage])
    deaths.set(name, { errorCode, stage, count: (deaths.get(name)?.count ?? 0) + 1 })
  }
  return [...deaths.values()]
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
