import type { BatchCount } from '../contract/batch-store.js'
import type { TaskStatus } from '../contract/task.js'
import type { BatchPort } from '../port/batch-port.js'
import { memberRange } from '../rules/batches/members.js'
import { State, statusOf } from '../rules/task-state.js'
import type { SqliteParts } from './port.js'
import { type BatchStatements, batchStatementsOf } from './statements/batches.js'

/** The primitives of batches on SQLite. */
export class SqliteBatchPort implements BatchPort {
  readonly #statements: BatchStatements

  constructor({ db }: SqliteParts) {
    this.#statements = batchStatementsOf(db)
  }

  unfinished(batch: string, from: string): string | undefined {
    const [first, end] = memberRange(batch)
    return this.#statements.unfinished.get(from > first ? from : first, end)
  }

  members(batch: string, status: TaskStatus | undefined, after: string, limit: number): string[] {
    const [first, end] = memberRange(batch)
    const states = Object.values(State).filter(state => status === undefined || statusOf(state) === status)
    return this.#statements.members.all(after > first ? after : first, end, JSON.stringify(states), limit)
  }

  tally(batch: string): BatchCount[] {
    return this.#statements.tally.all(...memberRange(batch)).map(({ state, errorCode, ...row }) => {
      return { ...row, status: statusOf(state), errorCode: errorCode ?? undefined }
    })
  }
}
