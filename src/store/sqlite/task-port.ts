import type { NewTask } from '../contract/task.js'
import type { TaskPort } from '../port/task-port.js'
import { mayBeItem } from '../rules/runs/items.js'
import { enqueue } from './enqueue.js'
import type { LaneIds } from './lane-ids.js'
import { cancel, deadAmong, discard, redrive } from './operators.js'
import type { Statements } from './statements.js'

/** The parts of a store that its primitives work with. */
export interface SqliteParts {
  readonly statements: Statements
  readonly lanes: LaneIds
  readonly makeId: (now: number) => string
  readonly now: () => number
}

/** The primitives of tasks on SQLite. There is one writer at a time, so what was read is current. */
export function sqliteTaskPort({ statements, lanes, makeId, now }: SqliteParts): TaskPort {
  return {
    now,
    appendAudit: (record, at) => void statements.appendAudit.run(at, record),
    enqueue: (tasks: readonly NewTask[], at) => enqueue(statements, lanes, tasks, at, makeId).map(({ isNew }) => isNew),
    redrive: (ids, by, at, part) => redrive(statements, deadAmong(statements, ids, part), by, at, part?.operation),
    discard: (ids, by, at, part) => discard(statements, ids, { why: '', ...by }, at, part),
    cancel: (ids, by, at) => cancel(statements, ids, by, at),
    itemsOf: ids =>
      new Map(
        ids.filter(mayBeItem).flatMap(id => {
          const item = statements.item.get(id)
          return item === undefined ? [] : [[id, { id, ...item }]]
        }),
      ),
  }
}
