import type { Enqueued, NewTask, Outcome, Settlement } from '../store.js'
import { State } from '../task-state.js'
import { triedForMs } from '../tried-for.js'
import { LaneBook } from './lane-book.js'
import type { LaneIds } from './lane-ids.js'
import { settle } from './settle.js'
import type { Statements } from './statements.js'
import { makeNonce, tokenOf } from './token.js'

/** Adds tasks. A task whose id is taken changes nothing. Within a transaction. */
export function enqueue(
  statements: Statements,
  lanes: LaneIds,
  tasks: readonly NewTask[],
  now: number,
  makeId: (now: number) => string,
): Enqueued[] {
  const book = new LaneBook(statements)
  const tried: Settlement[] = []
  const results = tasks.map(task => {
    const { id = makeId(now), kind, category = '', key = '' } = task
    const lane = lanes.of(kind, category, key)
    const seq = insert(statements, book, lane, id, task, now)
    if (seq === undefined) return { id, isNew: false }
    book.move(lane, undefined, task.tried === undefined ? 'waiting' : 'running')
    if (task.tried !== undefined) {
      const token = start(statements, seq, lane, task.tried.attempt.worker, now)
      tried.push({ id, token, ...task.tried, outcome: withoutWorker(task.tried.outcome) })
    }
    return { id, isNew: true }
  })
  book.write()
  if (tried.length > 0) settle(statements, lanes, tried, now)
  return results
}

/** Adds a task to its lane. Returns its sequence number; `undefined` if its id is taken. */
function insert(
  statements: Statements,
  book: LaneBook,
  lane: number,
  id: string,
  task: NewTask,
  now: number,
): number | undefined {
  const { payload, priority = 0, cost, traceparent = null } = task
  const runAt = Math.ceil(task.runAt ?? now)
  const state = runAt > now ? State.scheduled : State.ready
  const place = book.isOrdered(lane) ? (statements.lastPlace.get({ lane, priority }) ?? 0) + 1 : 0
  const submitted = Math.floor(task.submittedAt ?? Math.max(now, place))
  const began = Math.max(now, runAt) - triedForMs(task)
  const costs = cost === undefined ? null : JSON.stringify(cost)
  const added = statements.insertTask.run(
    id,
    lane,
    state,
    priority,
    submitted,
    began,
    now,
    runAt,
    payload,
    costs,
    traceparent,
  )
  return added.changes > 0 ? Number(added.lastInsertRowid) : undefined
}

/** Makes a task running whose attempt was made elsewhere, so that the attempt can be settled. */
function start(statements: Statements, seq: number, lane: number, worker: string, now: number): string {
  const nonce = makeNonce()
  statements.start.run(worker, nonce, now, now, JSON.stringify([seq]))
  return tokenOf(seq, lane, nonce)
}

/** No worker has the task, so none can keep it. */
function withoutWorker(outcome: Outcome): Outcome {
  return outcome.type === 'advanced' ? { ...outcome, keep: false } : outcome
}
