import type { ItemCounts, ReprocessFilter } from '../contract/run-store.js'
import type { CountedRun, RunPort } from '../port/run-port.js'
import type { Promised } from '../port/steps.js'
import { type TaskRow, taskColumns } from '../rules/rows.js'
import { itemKind, lanesOf } from '../rules/runs/items.js'
import { runRow, runState } from '../rules/runs/run-row.js'
import type { RunState, StageCounts } from '../rules/runs/run-state.js'
import { State, statusOf } from '../rules/task-state.js'
import { recordOf } from './browse.js'
import { answerOf, type Sql } from './database.js'
import type { Enqueues } from './enqueue.js'
import { byValues } from './operators.js'
import { postgresTaskPort } from './task-port.js'
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

/** The primitives of runs on PostgreSQL. */
export function postgresRunPort(sql: Sql, enqueues: Enqueues): Promised<RunPort> {
  const { call, query, at } = sql
  const read = async (values: unknown[]): Promise<CountedRun[]> => {
    const { runs } = JSON.parse(String(await call('read_runs', [...values, at]))) as RunsAnswer
    return runs.map(({ state, counts }) => ({ state: runState(state), counts: stageCounts(counts) }))
  }
  return {
    ...postgresTaskPort(sql, enqueues),
    openRun: async state => (await call('open_run', [runJson(state)])) === true,
    run: async id => (await read([id, null, null, null, null]))[0],
    lockRun: async id => {
      const found = (await call('lock_run', [id, at])) as { readonly state: string; readonly now: number } | null
      return found === null ? undefined : { state: runState(found.state), now: found.now }
    },
    runs: (pipeline, { changedAt, id }, limit) => read([null, pipeline ?? null, changedAt, id, limit]),
    saveRun: async state => {
      await call('save_run', [runJson(state)])
    },
    runCounts: async state => {
      const { kind, key } = lanesOf(state)
      return stageCounts((await call('run_counts', [kind, key])) as CountsRow[])
    },
    makeLanes: async state => {
      const lanes = state.stages.map(category => ({ ...lanesOf(state), category }))
      await call('make_lanes', [JSON.stringify(lanes)])
    },
    pauseRun: async (state, isPaused, now, by) => {
      const { kind, key } = lanesOf(state)
      if (isPaused) await call('pause', [kind, null, key, true, ...byValues(by), now])
      else await call('end_pause', [kind, key])
    },
    addItems: async (run, items) => {
      if (items.length === 0) return
      await call('add_items', [run, items.map(({ position }) => position), items.map(({ id }) => id)])
    },
    items: async (state, { from, end, afterId, endId }, status, limit) => {
      const states = Object.values(State).filter(one => status === undefined || statusOf(one) === status)
      const answer = state.hasOwnIds
        ? await query(OWN_ITEMS, [states, limit, state.id, from, end])
        : await query(ITEMS, [states, limit, afterId, endId])
      const rows = JSON.parse(String(answerOf(answer))) as (TaskRow & { readonly position?: number })[]
      return rows.map(row => ({ record: recordOf(row), ...(row.position !== undefined && { position: row.position }) }))
    },
    deadItems: async (filter, limit) => {
      const { diedUntil = Number.MAX_SAFE_INTEGER } = filter
      return (await call('dead_items', [...scopeOf(filter), Math.floor(diedUntil), limit])) as string[]
    },
    waitingItems: async (filter, limit) => (await call('waiting_items', [...scopeOf(filter), limit])) as string[],
    runningItems: async state => {
      const { kind, key } = lanesOf(state)
      return (await call('running_items', [kind, key])) as string[]
    },
    moveItems: async (ids, stage) => {
      await call('move_items', [ids, stage])
    },
    itemDeaths: async (state, { since = 0, stage }) => {
      const { kind, key } = lanesOf(state)
      const rows = (await call('deaths', [kind, key, stage ?? null, since])) as DeathRow[]
      return rows.map(({ error_code, ...row }) => ({ ...row, errorCode: stored(error_code ?? undefined) }))
    },
    outputs: async (run, limit) => {
      const rows = (await query(OUTPUTS, [run, limit])) as { id: string; result: string | null }[]
      return rows.map(row => ({ ...row, result: row.result ?? undefined }))
    },
    removeOutputs: async (run, ids) => {
      await call('remove_outputs', [run, ids])
    },
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
