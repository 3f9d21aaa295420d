import type { TaskStatus } from '../contract/task.js'
import type { KeyRow } from '../rules/unique.js'
import { type KeyRows, releaseKey } from '../rules/unique-keys.js'
import type { LaneBook } from './lane-book.js'
import type { Statements } from './statements.js'

/** The rows of unique keys in a SQLite store. Within a transaction. */
export class SqliteKeyRows implements KeyRows {
  readonly statements: Statements

  constructor(statements: Statements) {
    this.statements = statements
  }

  row(kind: string, key: string): KeyRow | undefined {
    const row = this.statements.keyRow.get(kind, key)
    if (row === undefined) return undefined
    const { task, since, until, next, next_at: nextAt } = row
    return { task, since, until: until ?? undefined, next: next ?? undefined, nextAt: nextAt ?? undefined }
  }

  save(kind: string, key: string, { task, since, until = null, next = null, nextAt = null }: WithNulls): void {
    this.statements.saveKey.run(kind, key, task, since, until, next, nextAt)
  }

  drop(kind: string, key: string): void {
    this.statements.dropKey.run(kind, key)
  }

  free(id: string, dueAt: number, now: number): void {
    this.statements.freeTask.run({ id, at: Math.max(now, dueAt), now })
  }
}

type WithNulls = { readonly [Field in keyof KeyRow]: KeyRow[Field] | null }

/** Gives back the unique key of a task, if it has one and has ended. */
export function release(
  statements: Statements,
  book: LaneBook,
  { id, lane, unique_key: key }: { readonly id: string; readonly lane: number; readonly unique_key: string | null },
  status: TaskStatus,
  now: number,
): void {
  if (key === null || status === 'waiting') return
  const kind = statements.lane.get(lane)?.kind ?? ''
  if (releaseKey(new SqliteKeyRows(statements), { id, kind, key }, now)) book.isAnyFreed = true
}
