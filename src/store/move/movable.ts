import type { Page, PageRequest, Store } from '../store.js'

/**
 * What a store is made of, in the order in which it is moved: the table that holds each sort, what its rows are known and
 * ordered by, and the columns that are moved. A task comes with the name of its lane and with its `ledger`, in which the
 * attempt that is kept in the task's own row is a row as all others.
 */
export const SORTS = {
  pause: { table: 'pause_rule', key: ['id'], columns: words('id kind category key paused') },
  limit: {
    table: 'limit_rule',
    key: ['id'],
    columns: words('id kind category key concurrency per_second ordered'),
  },
  lane: {
    table: 'lane',
    key: ['kind', 'category', 'key'],
    columns: words('kind category key paused held_until ramp concurrency per_second ordered tokens refilled_at'),
  },
  policy: { table: 'policy', key: ['hash'], columns: words('hash policy') },
  task: {
    table: 'task',
    key: ['id'],
    columns: words(`
      id state priority submitted_at started_at changed_at next_at entries attempts deferrals losses undecided
      previous_delay error_class error_code error_message reason result payload`),
  },
  key: { table: 'idempotency', key: ['key'], columns: words('key fingerprint token until result done_at') },
  audit: { table: 'audit', key: ['id'], columns: words('id at record') },
}

/** One of the sorts of things that a store holds. */
export type Sort = keyof typeof SORTS

/** The columns of a task's ledger. */
export const ENTRY_COLUMNS = words(`
  sequence attempt started_at ended_at worker outcome delay_ms reason error_class error_code retry_after error random
  policy`)

/** What stands in those columns for the attempt that is kept in the task's own row. */
export const INLINE_ENTRY = /* sql */ `
  entries, ran_attempt, ran_from, ran_to, task.worker, 'succeeded', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL`

/** A row by its columns, as every database spells it: flags are 0 and 1, times are milliseconds. */
export interface MovedRow {
  readonly [column: string]: string | number | null | readonly MovedRow[]
}

/** A store whose whole contents can be moved to another, and which another's can be moved to. */
export interface Movable extends Store {
  /** A page of what it holds of a sort, in the order of their keys. */
  exportPage(sort: Sort, page: PageRequest): Promise<Page<MovedRow>>
  /** Adds rows in one transaction. What is there already stays as it is. Returns how many were new. */
  importRows(sort: Sort, rows: readonly MovedRow[]): Promise<number>
}

/** The page that these rows are, of so many at most. */
export function pageOf(sort: Sort, rows: readonly MovedRow[], limit: number): Page<MovedRow> {
  const last = rows.at(-1)
  if (last === undefined || rows.length < limit) return { items: rows }
  return { items: rows, next: JSON.stringify(SORTS[sort].key.map(column => last[column])) }
}

/** The key of the row that a page begins behind. */
export function placeOf(after: string): (string | number)[] {
  return JSON.parse(after) as (string | number)[]
}

function words(text: string): readonly string[] {
  return text.trim().split(/\s+/)
}
