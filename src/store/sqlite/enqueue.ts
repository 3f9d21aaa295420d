import type { Enqueued, NewTask } from '../store.js'
import { LaneBook } from './lane-book.js'
import { State } from './schema.js'
import type { Statements } from './statements.js'

/** The ids of lanes, so that they need not be looked up for each task. Cleared after a rollback: a lane may be gone. */
export type LaneIds = Map<string, number>

const MOST_LANES_KEPT = 10_000

/** Adds tasks; those whose id is known already change nothing. To be called within a transaction. */
export function enqueue(
  statements: Statements,
  lanes: LaneIds,
  tasks: readonly NewTask[],
  now: number,
  makeId: (now: number) => string,
): Enqueued[] {
  const book = new LaneBook(statements)
  const results = tasks.map(task => {
    const { id = makeId(now), kind, category = '', key = '', payload, priority = 0, submittedAt = now } = task
    const lane = laneId(statements, lanes, kind, category, key)
    const runAt = Math.ceil(task.runAt ?? now)
    const state = runAt > now ? State.scheduled : State.ready
    const submitted = Math.floor(submittedAt)
    const { changes } = statements.insertTask.run(id, lane, state, priority, submitted, now, now, runAt, payload)
    if (changes > 0) book.move(lane, undefined, 'waiting')
    return { id, isNew: changes > 0 }
  })
  book.write()
  return results
}

/** The id of a lane, which is made if it is new. */
export function laneId(statements: Statements, lanes: LaneIds, kind: string, category: string, key: string): number {
  const name = category === '' && key === '' ? kind : `${kind}\0${category}\0${key}`
  const known = lanes.get(name)
  if (known !== undefined) return known

  const id = statements.laneId.get(kind, category, key) ?? statements.insertLane.get({ kind, category, key })
  if (id === undefined) throw new Error(`The lane ${JSON.stringify({ kind, category, key })} could not be made.`)
  if (lanes.size >= MOST_LANES_KEPT) lanes.clear()
  lanes.set(name, id)
  return id
}
