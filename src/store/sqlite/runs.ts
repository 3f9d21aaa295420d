import type { ItemCounts, OutputRow, ReprocessFilter } from '../contract/run-store.js'
import type { TaskStatus } from '../contract/task.js'
import type { CountedRun, DeathScope, ItemPosition, ItemRow, LockedRun, RunPort } from '../port/run-port.js'
import type { TaskPlace } from '../rules/cursor.js'
import { taskRecord } from '../rules/rows.js'
import type { Deaths } from '../rules/runs/cause.js'
import type { ItemScan } from '../rules/runs/item-page.js'
import { itemKind, lanesOf } from '../rules/runs/items.js'
import { runRow, runState } from '../rules/runs/run-row.js'
import type { RunState, StageCounts } from '../rules/runs/run-state.js'
import { State, statusOf } from '../rules/task-state.js'
import { LaneBook } from './lane-book.js'
import type { SqliteParts } from './port.js'
import type { RunStatements } from './statements/runs.js'

/** The primitives of runs on SQLite. */
export class SqliteRunPort implements RunPort {
  readonly #parts: SqliteParts
  readonly #runs: RunStatements

  constructor(parts: SqliteParts) {
    this.#parts = parts
    this.#runs = parts.runs
  }

  open(state: RunState): boolean {
    return this.#runs.open.run(runRow(state)).changes === 1
  }

  get(id: string): CountedRun | undefined {
    const json = this.#runs.run.get(id)
    return json === undefined ? undefined : this.#counted(json)
  }

  lock(id: string): LockedRun | undefined {
    const json = this.#runs.run.get(id)
    return json === undefined ? undefined : { state: runState(json), now: this.#parts.now() }
  }

  list(pipeline: string | undefined, { changedAt: created_at, id }: TaskPlace, limit: number): CountedRun[] {
    const rows = this.#runs.list.all({ created_at, id, pipeline: pipeline ?? null, limit })
    return rows.map(json => this.#counted(json))
  }

  save(state: RunState): void {
    this.#runs.save.run(runRow(state))
  }

  counts(state: RunState): StageCounts {
    const rows = this.#runs.counts.all(lanesOf(state))
    return new Map(rows.map(({ category, ...counts }): [string, ItemCounts] => [category, counts]))
  }

  addItems(run: string, items: readonly ItemPosition[]): void {
    for (const { id, position } of items) this.#runs.addItem.run(run, position, id)
  }

  items(state: RunState, scan: ItemScan, status: TaskStatus | undefined, limit: number): ItemRow[] {
    const { from, end, afterId: after, endId } = scan
    const states = JSON.stringify(Object.values(State).filter(s => status === undefined || statusOf(s) === status))
    if (!state.hasOwnIds)
      return this.#runs.items.all({ after, end: endId, states, limit }).map(row => ({ record: taskRecord(row) }))
    const rows = this.#runs.ownItems.all({ run: state.id, from, end, states, limit })
    return rows.map(row => ({ record: taskRecord(row), position: row.position }))
  }

  deadItems(filter: ReprocessFilter, limit: number): string[] {
    return this.#runs.deadItems.all({ ...scopeOf(filter), limit })
  }

  waitingItems(filter: ReprocessFilter, limit: number): string[] {
    const { kind, key, ...rest } = scopeOf(filter)
    const isWholeRun = key !== null && filter.stage === undefined && filter.errorCode === undefined
    return isWholeRun
      ? this.#runs.waiting.all({ kind, key, limit })
      : this.#runs.waitingItems.all({ kind, key, ...rest, limit })
  }

  runningItems(state: RunState): string[] {
    return this.#runs.running.all(lanesOf(state))
  }

  moveItems(ids: readonly string[], stage: string): void {
    const { statements, lanes } = this.#parts
    const book = new LaneBook(statements)
    for (const id of ids) {
      const task = statements.state.get(id)
      const from = task && lanes.lane(task.lane)
      if (task === undefined || from === undefined) continue
      const lane = lanes.of(from.kind, stage, from.key)
      this.#runs.moveItem.run(lane, task.seq)
      book.move(task.lane, 'waiting', undefined)
      book.move(lane, undefined, 'waiting')
    }
    book.write()
  }

  deaths(state: RunState, { since, stage }: DeathScope): Deaths[] {
    const rows = this.#runs.deaths.all({ ...lanesOf(state), since, category: stage ?? null })
    return rows.map(({ error_code, category, count }) => {
      return { errorCode: error_code ?? undefined, stage: category, count }
    })
  }

  outputs(run: string, limit: number): OutputRow[] {
    return this.#runs.outputs.all(run, limit).map(({ id, result }) => ({ id, result: result ?? undefined }))
  }

  removeOutputs(run: string, ids: readonly string[]): void {
    for (const id of ids) this.#runs.written.run(run, id)
  }

  #counted(json: string): CountedRun {
    const state = runState(json)
    return { state, counts: this.counts(state) }
  }
}

function scopeOf({ pipeline, run, stage, errorCode, diedUntil = Number.MAX_SAFE_INTEGER }: ReprocessFilter) {
  return {
    kind: itemKind(pipeline),
    key: run ?? null,
    category: stage ?? null,
    error_code: errorCode ?? null,
    until: diedUntil,
  }
}
