import type { ItemCounts, ReprocessFilter } from '../contract/run-store.js'
import type { RunPort } from '../port/run-port.js'
import type { TaskPort } from '../port/task-port.js'
import { taskRecord } from '../rules/rows.js'
import { itemKind, lanesOf } from '../rules/runs/items.js'
import { runRow, runState } from '../rules/runs/run-row.js'
import type { RunState, StageCounts } from '../rules/runs/run-state.js'
import { State, statusOf } from '../rules/task-state.js'
import { LaneBook } from './lane-book.js'
import { setPause } from './operators.js'
import type { RunStatements } from './statements/runs.js'
import { type SqliteParts, sqliteTaskPort } from './task-port.js'

/** The primitives of runs on SQLite. */
export function sqliteRunPort(parts: SqliteParts, runs: RunStatements): RunPort {
  const { statements, lanes, now } = parts
  const tasks: TaskPort = sqliteTaskPort(parts)
  const runCounts = (state: RunState): StageCounts =>
    new Map(runs.counts.all(lanesOf(state)).map(({ category, ...counts }): [string, ItemCounts] => [category, counts]))
  const counted = (state: RunState) => ({ state, counts: runCounts(state) })
  const find = (id: string) => {
    const json = runs.run.get(id)
    return json === undefined ? undefined : runState(json)
  }
  return {
    ...tasks,
    openRun: state => runs.open.run(runRow(state)).changes === 1,
    run: id => {
      const state = find(id)
      return state && counted(state)
    },
    lockRun: id => {
      const state = find(id)
      return state && { state, now: now() }
    },
    runs: (pipeline, { changedAt: created_at, id }, limit) =>
      runs.list.all({ created_at, id, pipeline: pipeline ?? null, limit }).map(json => counted(runState(json))),
    saveRun: state => void runs.save.run(runRow(state)),
    runCounts,
    makeLanes: state => {
      const { kind, key } = lanesOf(state)
      for (const stage of state.stages) lanes.of(kind, stage, key)
    },
    pauseRun: (state, isPaused, at, by) => {
      if (isPaused) return setPause(statements, lanesOf(state), true, by, at)
      runs.dropPauseRule.run(lanesOf(state))
      runs.pauseByRules.run(lanesOf(state))
    },
    addItems: (run, items) => {
      for (const { id, position } of items) runs.addItem.run(run, position, id)
    },
    items: (state, { from, end, afterId: after, endId }, status, limit) => {
      const states = JSON.stringify(Object.values(State).filter(s => status === undefined || statusOf(s) === status))
      if (!state.hasOwnIds)
        return runs.items.all({ after, end: endId, states, limit }).map(row => ({ record: taskRecord(row) }))
      const rows = runs.ownItems.all({ run: state.id, from, end, states, limit })
      return rows.map(row => ({ record: taskRecord(row), position: row.position }))
    },
    deadItems: (filter, limit) => runs.deadItems.all({ ...scopeOf(filter), limit }),
    waitingItems: (filter, limit) => {
      const { kind, key, ...rest } = scopeOf(filter)
      const isWholeRun = key !== null && filter.stage === undefined && filter.errorCode === undefined
      return isWholeRun ? runs.waiting.all({ kind, key, limit }) : runs.waitingItems.all({ kind, key, ...rest, limit })
    },
    runningItems: state => runs.running.all(lanesOf(state)),
    moveItems: (ids, stage) => {
      const book = new LaneBook(statements)
      for (const id of ids) {
        const task = statements.state.get(id)
        const from = task && lanes.lane(task.lane)
        if (task === undefined || from === undefined) continue
        const lane = lanes.of(from.kind, stage, from.key)
        runs.moveItem.run(lane, task.seq)
        book.move(task.lane, 'waiting', undefined)
        book.move(lane, undefined, 'waiting')
      }
      book.write()
    },
    itemDeaths: (state, { since = state.createdAt, stage }) =>
      runs.deaths.all({ ...lanesOf(state), since, category: stage ?? null }).map(({ error_code, category, count }) => {
        return { errorCode: error_code ?? undefined, stage: category, count }
      }),
    outputs: (run, limit) =>
      runs.outputs.all(run, limit).map(({ id, result }) => ({ id, result: result ?? undefined })),
    removeOutputs: (run, ids) => {
      for (const id of ids) runs.written.run(run, id)
    },
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
