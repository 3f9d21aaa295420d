import { OptionError } from '../../policy/index.js'
import type { Page, PageRequest } from '../contract/list.js'
import { contractOf, type Store } from '../contract/public-store.js'
import type { StoreContract } from '../contract/store.js'

/**
 * The sections of a store, in the order in which they are moved: each with its table, the columns that identify and order
 * its rows, and the columns that are moved. A lane that is added belongs to
 * the shared limit of its `quota`, or the one that matches it. A task also has the name of its lane, its `steps` in their order and its `ledger`, in which the attempt
 * kept in the task's own row is a row like all others. The figures of groups, and costs, are added up by hour.
 */
export const SECTIONS = {
  pause: { table: 'pause_rule', key: ['id'], columns: words('id kind category key paused at who why') },
  limit: {
    table: 'limit_rule',
    key: ['id'],
    columns: words('id kind category key concurrency per_second ordered blocking'),
  },
  shared: { table: 'shared_limit', key: ['id'], columns: words('id kind category limits state quota') },
  budget: { table: 'budget', key: ['id'], columns: words('id kind category settings gate') },
  declared: { table: 'declared_limit', key: ['lanes'], columns: words('lanes limits') },
  lane: {
    table: 'lane',
    key: ['kind', 'category', 'key'],
    columns: words(
      'kind category key paused held_until held_by ramp concurrency per_second ordered blocking tokens refilled_at',
    ),
  },
  policy: { table: 'policy', key: ['hash'], columns: words('hash policy') },
  task: {
    table: 'task',
    key: ['id'],
    columns: words(`
      id state priority submitted_at started_at changed_at next_at entries attempts deferrals losses undecided
      has_steps previous_delay error_class error_code error_message failure_group reason result payload value cost traceparent
      operation answered unique_key unique_while policy`),
  },
  unique: { table: 'unique_key', key: ['kind', 'key'], columns: words('kind key task since until next next_at') },
  record: { table: 'record', key: ['type', 'id'], columns: words('type id place open state') },
  operation_tally: {
    table: 'operation_tally',
    key: ['operation'],
    columns: words('operation passed failed unanswered succeeded skipped dead cancelled'),
  },
  group: {
    table: 'failure_group',
    key: ['id'],
    columns: words('id kind code error_name pattern frames first_seen life marked_at who why details'),
  },
  tally: {
    table: 'group_tally',
    key: ['failure_group', 'hour'],
    columns: words('failure_group hour seen retrying dead last_seen'),
  },
  cost: {
    table: 'cost_tally',
    key: ['kind', 'key', 'category', 'hour', 'bucket'],
    columns: words('kind key category hour bucket amount'),
  },
  run: {
    table: 'run',
    key: ['id'],
    columns: words('id pipeline created_at ended_at dead forgotten has_output next_check state'),
  },
  item: { table: 'run_item', key: ['run', 'position'], columns: words('run position task') },
  output: { table: 'run_output', key: ['run', 'task'], columns: words('run task') },
  key: { table: 'idempotency', key: ['key'], columns: words('key fingerprint token until result done_at') },
  audit: { table: 'audit', key: ['id'], columns: words('id at record') },
}

const JSON_COLUMNS: { readonly [Name in Section]?: readonly string[] } = {
  shared: ['limits', 'state'],
  budget: ['settings', 'gate'],
  group: ['details'],
}

/** A section of a store: one sort of rows that it holds, such as tasks or lanes. */
export type Section = keyof typeof SECTIONS

/** The columns of a task's ledger. */
export const ENTRY_COLUMNS = words(`
  sequence attempt started_at ended_at worker outcome delay_ms reason error_class error_code retry_after error random
  policy category version call stack trace release before failure_group notes`)

/** The columns of a task's steps. */
export const STEP_COLUMNS = words('name done result state')

/**
 * The trace of the attempt that is kept in the task's own row: if it is the only one, that of whoever enqueued the task.
 * `earlier` selects the rows of the task's ledger.
 */
export function inlineTrace(earlier: string): string {
  return /* sql */ `CASE WHEN task.entries = 1 OR NOT EXISTS (SELECT 1 FROM ${earlier} AND attempt > 0)
    THEN substr(task.traceparent, 4, 32) END`
}

/** The values of those columns for the attempt that is kept in the task's own row, from `task` joined with `lane`. */
export function inlineEntry(earlier: string): string {
  return /* sql */ `
    entries, ran_attempt, ran_from, ran_to, task.worker, 'succeeded', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    nullif(lane.category, ''), task.version, task.call, NULL, ${inlineTrace(earlier)}, task.release, NULL, NULL, NULL`
}

/** A row by column, in the same form for every database: flags are 0 and 1, times are milliseconds, the keys of JSON are sorted. */
export interface MovedRow {
  readonly [column: string]: string | number | null | readonly MovedRow[]
}

/** A store whose contents can be moved to another store, and that can receive another's. */
export interface Movable extends StoreContract {
  /** Reads a page of a section, in the order of its keys. */
  exportPage(section: Section, page: PageRequest): Promise<Page<MovedRow>>
  /** Adds rows in one transaction, and leaves those that exist as they are. Returns how many were new. */
  importRows(section: Section, rows: readonly MovedRow[]): Promise<number>
}

/** A user's store as one that can be moved. Throws an `OptionError` if it cannot be. */
export function movableOf(store: Store): Movable {
  const contract = contractOf(store)
  if (isMovable(contract)) return contract
  throw new OptionError('store', 'A MemoryStore cannot be moved: moves are between SQLite and PostgreSQL.')
}

function isMovable(store: StoreContract): store is Movable {
  return 'exportPage' in store
}

/** Makes a page of rows that were read with this limit. */
export function pageOf(section: Section, moved: readonly MovedRow[], limit: number): Page<MovedRow> {
  const json = JSON_COLUMNS[section]
  const rows = json === undefined ? moved : moved.map(row => withSortedKeys(row, json))
  const last = rows.at(-1)
  if (last === undefined || rows.length < limit) return { items: rows }
  return { items: rows, next: JSON.stringify(SECTIONS[section].key.map(column => last[column])) }
}

/** Reads the key after which a page begins. */
export function placeOf(after: string): (string | number)[] {
  return JSON.parse(after) as (string | number)[]
}

/** Databases write the keys of JSON in their own order. */
function withSortedKeys(row: MovedRow, columns: readonly string[]): MovedRow {
  return { ...row, ...Object.fromEntries(columns.map(column => [column, sortedJson(row[column])])) }
}

function sortedJson(text: MovedRow[string] | undefined): string | null {
  if (typeof text !== 'string') return null
  const isPlain = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)
  return JSON.stringify(JSON.parse(text), (_, value) =>
    isPlain(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value,
  )
}

function words(text: string): readonly string[] {
  return text.trim().split(/\s+/)
}
