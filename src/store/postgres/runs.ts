import type { ItemCounts, OutputRow, ReprocessFilter } from '../contract/run-store.js'
import type { TaskStatus } from '../contract/task.js'
import type { CountedRun, DeathScope, ItemPosition, ItemRow, LockedRun, RunPort } from '../port/run-port.js'
import type { Promised } from '../port/steps.js'
import type { TaskPlace } from '../rules/cursor.js'
import { type TaskRow, taskColumns } from '../rules/rows.js'
import type { Deaths } from '../rules/runs/cause.js'
import type { ItemScan } from '../rules/runs/item-page.js'
import { itemKind, lanesOf } from '../rules/runs/items.js'
import { runRow, runState } from '../rules/runs/run-row.js'
import type { RunState, StageCounts } from '../rules/runs/run-state.js'
import { State, statusOf } from '../rules/task-state.js'
import { answerOf, type Sql } from './database.js'
import { recordOf } from './reads.js'
import { storable, stored } from './text.js'

/** A stage with its items, as `run_counts` gives it. */
type CountsRow = ItemCounts & { readonly id: number; readonly category: string }

interface RunsAnswer {
  readonly runs: readonly { readonly state: string; readonly counts: readonly CountsRow[] }[]
}

interface DeathRow {
  readonly error_code: string | null
  readonly stage: string
  readonly count: number
}

interface LockedRow {
  readonly state: string
  readonly now: number
}

/** The primitives of runs on PostgreSQL. */
export class PostgresRunPort implements Promised<RunPort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async open(state: RunState): Promise<boolean> {
    return (await this.#sql.call('open_run', [runJson(state)])) === true
  }

  async get(id: string): Promise<CountedRun | undefined> {
    return (await this.#read([id, null, null, null, null]))[0]
  }

  async lock(id: string): Promise<LockedRun | undefined> {
    const found = (await this.#sql.call('lock_run', [id, this.#sql.at])) as LockedRow | null
    return found === null ? undefined : { state: runState(found.state), now: found.now }
  }

  list(pipeline: string | undefined, { changedAt, id }: TaskPlace, limit: number): Promise<CountedRun[]> {
    return this.#read([null, pipeline ?? null, changedAt, id, limit])
  }

  async save(state: RunState): Promise<void> {
    await this.#sql.call('save_run', [runJson(state)])
  }

  async counts(state: RunState): Promise<StageCounts> {
    const { kind, key } = lanesOf(state)
    return stageCounts((await this.#sql.call('run_counts', [kind, key])) as CountsRow[])
  }

  async addItems(run: string, items: readonly ItemPosition[]): Promise<void> {
    if (items.length === 0) return
    await this.#sql.call('add_items', [run, items.map(({ position }) => position), items.map(({ id }) => id)])
  }

  async items(state: RunState, scan: ItemScan, status: TaskStatus | undefined, limit: number): Promise<ItemRow[]> {
    const { from, end, afterId, endId } = scan
    const states = Object.values(State).filter(one => status === undefined || statusOf(one) === status)
    const answer = state.hasOwnIds
      ? await this.#sql.query(OWN_ITEMS, [states, limit, state.id, from, end])
      : await this.#sql.query(ITEMS, [states, limit, afterId, endId])
    const rows = JSON.parse(String(answerOf(answer))) as (TaskRow & { readonly position?: number })[]
    return rows.map(row => ({ record: recordOf(row), ...(row.position !== undefined && { position: row.position }) }))
  }

  async deadItems(filter: ReprocessFilter, limit: number): Promise<string[]> {
    const until = Math.floor(filter.diedUntil ?? Number.MAX_SAFE_INTEGER)
    return (await this.#sql.call('dead_items', [...scopeOf(filter), until, limit])) as string[]
  }

  async waitingItems(filter: ReprocessFilter, limit: number): Promise<string[]> {
    return (await this.#sql.call('waiting_items', [...scopeOf(filter), limit])) as string[]
  }

  async runningItems(state: RunState): Promise<string[]> {
    const { kind, key } = lanesOf(state)
    return (await this.#sql.call('running_items', [kind, key])) as string[]
  }

  async moveItems(ids: readonly string[], stage: string): Promise<void> {
    await this.#sql.call('move_items', [ids, stage])
  }

  async deaths(state: RunState, { since, stage }: DeathScope): Promise<Deaths[]> {
    const { kind, key } = lanesOf(state)
    const rows = (await this.#sql.call('deaths', [kind, key, stage ?? null, since])) as DeathRow[]
    return rows.map(({ error_code, ...row }) => ({ ...row, errorCode: stored(error_code ?? undefined) }))
  }

  async outputs(run: string, limit: number): Promise<OutputRow[]> {
    const rows = (await this.#sql.query(OUTPUTS, [run, limit])) as { id: string; result: string | null }[]
    return rows.map(row => ({ ...row, result: row.result ?? undefined }))
  }

  async removeOutputs(run: string, ids: readonly string[]): Promise<void> {
    await this.#sql.call('remove_outputs', [run, ids])
  }

  async #read(values: unknown[]): Promise<CountedRun[]> {
    const { runs } = JSON.parse(String(await this.#sql.call('read_runs', [...values, this.#sql.at]))) as RunsAnswer
    return runs.map(({ state, counts }) => ({ state: runState(state), counts: stageCounts(counts) }))
  }
}

/** The row of a run, with flags as PostgreSQL reads them. */
function runJson(state: RunState): string {
  const { forgotten, has_output, ...row } = runRow(state)
  return JSON.stringify({ ...row, forgotten: forgotten === 1, has_output: has_output === 1 })
}

function stageCounts(rows: readonly CountsRow[]): StageCounts {
  return new Map(rows.map(({ id: _, category, ...counts }): [string, ItemCounts] => [category, counts]))
}

function scopeOf({ pipeline, run, stage, errorCode }: ReprocessFilter): (string | null)[] {
  return [itemKind(pipeline), run ?? null, stage ?? null, storable(errorCode) ?? null]
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
