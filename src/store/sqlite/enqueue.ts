import type { Outcome, Settlement } from '../contract/claim.js'
import type { Enqueued, NewTask } from '../contract/task.js'
import { created, QUEUED_UNTIL } from '../rules/unique.js'
import { takeKey } from '../rules/unique-keys.js'
import { alikeTasks, insertAlike, insertOne, MIN_ALIKE, taken } from './insert-tasks.js'
import { LaneBook } from './lane-book.js'
import { joinQuota, type LaneIds } from './lane-ids.js'
import { settle } from './settle.js'
import type { Statements } from './statements.js'
import { makeClaim, tokenOf } from './token.js'
import { SqliteUniqueKeys } from './unique.js'

/** Adds tasks. A task whose id is taken changes nothing. Within a transaction. */
export function enqueue(
  statements: Statements,
  lanes: LaneIds,
  tasks: readonly NewTask[],
  now: number,
  makeId: (now: number) => string,
): Enqueued[] {
  lanes.begin()
  const book = new LaneBook(statements)
  const tried: Settlement[] = []
  const results: Enqueued[] = []
  const addOne = (task: NewTask, lane: number): Enqueued => {
    const { id = makeId(now), tried: attempted } = task
    const seq = insertOne(statements, book, lane, id, task, now)
    if (seq === undefined) return taken(statements, id)
    book.move(lane, undefined, attempted === undefined ? 'waiting' : 'running')
    if (attempted !== undefined) {
      const token = start(statements, seq, lane, attempted.attempt.worker, now)
      tried.push({ id, token, ...attempted, outcome: withoutWorker(attempted.outcome) })
    }
    return created(id)
  }
  const addUnique = (task: NewTask, lane: number): Enqueued => {
    const { id = makeId(now), unique } = task
    if (unique === undefined || (task.id !== undefined && statements.there.get(id)))
      return addOne({ ...task, id }, lane)
    const { kind } = task
    const until = unique.withinMs === undefined ? null : now + Math.ceil(unique.withinMs)
    // Mostly nobody has the key.
    const isFree = statements.addKey.run(kind, unique.key, id, now, until).changes > 0
    const met = isFree ? undefined : takeKey(new SqliteUniqueKeys(statements), task, id, unique, now)
    if (met !== undefined && 'stands' in met) return met.stands
    const added = addOne({ ...task, id }, lane)
    if (met?.isQueued) statements.queueTask.run(QUEUED_UNTIL, id)
    return met === undefined ? added : { ...added, outcome: met.outcome }
  }
  for (const part of alikeTasks(tasks)) {
    const { kind, category = '', key = '', quota } = part.first
    const lane = lanes.of(kind, category, key)
    if (quota !== undefined) joinQuota(statements, lane, kind, quota)
    if (part.tasks.length < MIN_ALIKE || book.isOrdered(lane))
      for (const task of part.tasks) results.push((task.unique ? addUnique : addOne)(task, lane))
    else results.push(...insertAlike(statements, book, lane, part, now, makeId))
  }
  book.write()
  if (tried.length > 0) settle(statements, lanes, tried, now)
  return results
}

/** Makes a task running whose attempt was made elsewhere, so that the attempt can be settled. */
function start(statements: Statements, seq: number, lane: number, worker: string, now: number): string {
  const claim = makeClaim()
  statements.start.run([seq], worker, claim, now, now)
  return tokenOf(seq, lane, claim)
}

/** No worker has the task, so none can keep it. */
function withoutWorker(outcome: Outcome): Outcome {
  return outcome.type === 'advanced' ? { ...outcome, keep: false } : outcome
}
