import type { By } from '../contract/ledger.js'
import type { UniqueScope } from '../contract/task.js'
import { statusOf } from '../rules/task-state.js'
import { type KeyHolder, QUEUED_UNTIL } from '../rules/unique.js'
import type { KeyHost } from '../rules/unique-keys.js'
import { cancel } from './operators.js'
import { SqliteKeyRows } from './release-key.js'

/** Unique keys, and the tasks that they name, in a SQLite store. Within a transaction. */
export class SqliteUniqueKeys extends SqliteKeyRows implements KeyHost {
  holder(id: string): (KeyHolder & { readonly since: number }) | undefined {
    const row = this.statements.keyHolder.get(id)
    if (row === undefined) return undefined
    const scope = (row.unique_while ?? undefined) as UniqueScope | undefined
    return { status: statusOf(row.state), hasBegun: row.begun === 1, scope, since: row.changed_at }
  }

  cancel(ids: readonly string[], by: By, now: number): void {
    cancel(this.statements, ids, by, now)
  }

  postpone(id: string, payload: string, dueAt: number, now: number): void {
    this.statements.postponeTask.run(payload, dueAt > now ? 0 : 1, dueAt, Math.max(now, dueAt), now, id)
  }

  queue(id: string): void {
    this.statements.queueTask.run(QUEUED_UNTIL, id)
  }
}
