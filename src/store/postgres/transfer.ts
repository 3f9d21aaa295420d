import { OptionError } from '../../policy/index.js'
import { quoted } from '../../policy/internal.js'
import type { Page, PageRequest } from '../contract/list.js'
import {
  ENTRY_COLUMNS,
  inlineEntry,
  type MovedRow,
  pageOf,
  placeOf,
  SECTIONS,
  type Section,
  STEP_COLUMNS,
} from '../move/movable.js'
import { answerOf, type Database, LONG } from './database.js'
import { isStorable, mappedBefore, storable, stored } from './text.js'

/** Texts from people and errors. They may hold any character, so they are not always stored as they are. */
const FREE_TEXTS = new Set([
  'error_code',
  'error_message',
  'error',
  'stack',
  'reason',
  'worker',
  'who',
  'why',
  'code',
  'error_name',
  'pattern',
  'frames',
])

/** Booleans here, and 0 and 1 in a moved row. */
const FLAGS = new Set([
  'paused',
  'ordered',
  'blocking',
  'undecided',
  'forgotten',
  'has_output',
  'open',
  'answered',
  'has_steps',
])

/** A category is never NULL here. */
function exportedColumn(column: string): string {
  return column === 'category' ? `nullif(ledger.category, '') AS category` : `ledger.${column}`
}

function importedColumn(column: string): string {
  return column === 'category' ? `coalesce(entry.category, '')` : `entry.${column}`
}

const LANE_AND_HISTORY = /* sql */ `, lane.kind, lane.category, lane.key, (task.blocks IS NOT NULL)::int AS is_blocking,
  (
    SELECT coalesce(json_agg(entry ORDER BY sequence), '[]') FROM (
      SELECT ${ENTRY_COLUMNS.map(exportedColumn).join(', ')} FROM redrive.ledger WHERE ledger.task = task.id
      UNION ALL
      SELECT ${inlineEntry('redrive.ledger WHERE ledger.task = task.id')}
      WHERE state = redrive.state_succeeded() AND ran_attempt IS NOT NULL
        AND NOT EXISTS (SELECT FROM redrive.ledger WHERE ledger.task = task.id AND sequence = entries)
    ) AS entry
  ) AS ledger,
  (
    SELECT coalesce(json_agg(kept.row ORDER BY sequence), '[]')
    FROM redrive.step CROSS JOIN LATERAL (
      SELECT json_build_object('name', name, 'done', done::int, 'result', result, 'state', state) AS row
    ) AS kept
    WHERE step.task = task.id
  ) AS steps`

/** What the rows of a section have besides its columns. */
const MORE: Readonly<Partial<Record<Section, string>>> = {
  lane: ', (SELECT its.quota FROM redrive.shared_limit AS its WHERE its.id = lane.shared) AS quota',
  task: LANE_AND_HISTORY,
}

/** Reads a page of a section. Each row comes as JSON, so that numbers are numbers. */
export async function exportPage(
  database: Database,
  section: Section,
  { limit, after }: PageRequest,
): Promise<Page<MovedRow>> {
  const { table, key, columns } = SECTIONS[section]
  const order = key.map(column => `${table}.${column}`).join(', ')
  const place = after === undefined ? [] : placeOf(after)
  const text = /* sql */ `
    SELECT row_to_json(moved)::text AS answer FROM (
      SELECT ${columns.map(column => `${table}.${column}${FLAGS.has(column) ? '::int' : ''}`).join(', ')}
        ${MORE[section] ?? ''}
      FROM ${SOURCES[section] ?? `redrive.${table}`}
      ${after === undefined ? '' : `WHERE (${order}) > (${place.map((_, index) => `$${index + 2}`).join(', ')})`}
      ORDER BY ${order}
      LIMIT $1
    ) AS moved`
  const answers = await database.query(text, [limit, ...place], LONG)
  const rows = answers.map(answer => read(JSON.parse(String(answerOf([answer]))) as MovedRow))
  return pageOf(section, rows, limit)
}

/** Where the rows of a section come from, if not from its table as it is. */
const SOURCES: Readonly<Partial<Record<Section, string>>> = {
  task: 'redrive.standing AS task JOIN redrive.lane ON lane.id = task.lane',
  tally: /* sql */ `(
    SELECT failure_group, hour, sum(seen)::bigint AS seen, sum(retrying)::bigint AS retrying, sum(dead)::bigint AS dead,
      max(last_seen) AS last_seen
    FROM redrive.group_tally GROUP BY failure_group, hour
  ) AS group_tally`,
  cost: /* sql */ `(
    SELECT kind, key, category, hour, bucket, sum(amount) AS amount
    FROM redrive.cost_tally GROUP BY kind, key, category, hour, bucket
  ) AS cost_tally`,
}

/** Adds rows that are not there yet, in one statement. Returns how many were new. */
export async function importRows(database: Database, section: Section, rows: readonly MovedRow[]): Promise<number> {
  const values = [JSON.stringify(rows.map(written))]
  return Number(answerOf(await database.query(IMPORTS[section], values, LONG)))
}

/** In its own row, a task that has not ended is running. */
function ownColumn(column: string): string {
  return column === 'state' ? 'greatest(given.state, redrive.state_running())' : `given.${column}`
}

const COUNT = /* sql */ `SELECT count(*) AS answer FROM added`

/** A task that has succeeded, or was skipped, has left its group. */
const IS_IN_GROUP = /* sql */ `
  given.failure_group IS NOT NULL AND given.state NOT IN (redrive.state_succeeded(), redrive.state_skipped())`

/** A quota that is held wakes workers when the hold ends. */
const QUOTA_OPENS_AT = /* sql */ `
  CASE WHEN quota IS NULL THEN 0 ELSE (state::json ->> 'heldUntil')::float8::bigint END`

const IMPORTS: Readonly<Record<Section, string>> = {
  pause: `WITH ${adding('pause')} ${countAndGoOn('pause')}`,
  limit: `WITH ${adding('limit')} ${countAndGoOn('limit')}`,
  shared: `WITH ${adding('shared', { opens_at: QUOTA_OPENS_AT })} ${countAndGoOn('shared')}`,
  budget: `WITH ${adding('budget')} ${countAndGoOn('budget')}`,
  declared: `WITH ${adding('declared')} ${COUNT}`,
  lane: /* sql */ `
    WITH added AS (
      INSERT INTO redrive.lane (id, shared, ${SECTIONS.lane.columns.join(', ')})
      SELECT redrive.new_lane_id(its.kind, its.key), coalesce(
          (SELECT id FROM redrive.shared_limit AS known WHERE known.kind = its.kind AND known.quota = row ->> 'quota'),
          redrive.shared_of(its.kind, its.category)),
        ${SECTIONS.lane.columns.map(column => `its.${column}`).join(', ')}
      FROM json_array_elements($1) AS given (row) CROSS JOIN json_populate_record(NULL::redrive.lane, row) AS its
      ON CONFLICT DO NOTHING
      RETURNING true
    )
    ${COUNT}`,
  policy: `WITH ${adding('policy')} ${COUNT}`,
  task: /* sql */ `
    WITH given AS MATERIALIZED (
      SELECT own.*, more.kind, more.category, more.key, more.is_blocking, more.ledger, more.steps
      FROM json_array_elements($1) AS given (row)
      CROSS JOIN json_populate_record(NULL::redrive.task, row) AS own
      CROSS JOIN json_to_record(row) AS more (kind text, category text, key text, is_blocking int, ledger json, steps json)
    ), added AS (
      INSERT INTO redrive.task (lane, blocks, failure_state, failure_at, ${SECTIONS.task.columns.join(', ')})
      SELECT lane.id, CASE WHEN given.is_blocking = 1 THEN lane.id END, CASE WHEN ${IS_IN_GROUP} THEN ${ownColumn('state')} END, CASE WHEN ${IS_IN_GROUP} THEN given.changed_at END,
        ${SECTIONS.task.columns.map(ownColumn).join(', ')}
      FROM given JOIN redrive.lane USING (kind, category, key)
      ON CONFLICT DO NOTHING
      RETURNING task.*
    ), queued AS (
      INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at, alone, budget)
      SELECT added.id, added.lane, CASE WHEN given.state = redrive.state_budgeted() AND its.budget IS NULL
          THEN redrive.state_scheduled() ELSE given.state END,
        added.priority, added.submitted_at, coalesce(added.next_at, 0), redrive.runs_alone(added.losses), its.budget
      FROM added JOIN given USING (id)
      -- A retry is under the budget of its lane.
      CROSS JOIN LATERAL (SELECT CASE WHEN given.state = redrive.state_budgeted()
        THEN redrive.retry_budget(given.kind, given.category) END) AS its (budget)
      WHERE given.state < redrive.state_running()
    ), listed AS (
      INSERT INTO redrive.ended (state, at, lane, tasks, task_lanes)
      SELECT state, changed_at, redrive.item_lane(lane), array_agg(id), array_agg(DISTINCT lane) FROM added
      WHERE state > redrive.state_running() GROUP BY state, changed_at, redrive.item_lane(lane)
    ), recorded AS (
      INSERT INTO redrive.ledger (task, ${ENTRY_COLUMNS.join(', ')})
      SELECT given.id, ${ENTRY_COLUMNS.map(importedColumn).join(', ')}
      FROM given JOIN added USING (id)
      CROSS JOIN json_populate_recordset(NULL::redrive.ledger, given.ledger) AS entry
    ), kept AS (
      INSERT INTO redrive.step (task, ${STEP_COLUMNS.join(', ')})
      SELECT given.id, ${STEP_COLUMNS.map(column => `entry.${column}`).join(', ')}
      FROM given JOIN added USING (id)
      CROSS JOIN json_populate_recordset(NULL::redrive.step, given.steps) WITH ORDINALITY AS entry
      ORDER BY given.id, entry.ordinality
    ), tallied AS (
      INSERT INTO redrive.tally (lane, waiting, running, succeeded, skipped, dead, cancelled)
      SELECT added.lane,
        count(*) FILTER (WHERE given.state < redrive.state_running()),
        count(*) FILTER (WHERE given.state = redrive.state_running()),
        count(*) FILTER (WHERE given.state = redrive.state_succeeded()),
        count(*) FILTER (WHERE given.state = redrive.state_skipped()),
        count(*) FILTER (WHERE given.state = redrive.state_dead()),
        count(*) FILTER (WHERE given.state = redrive.state_cancelled())
      FROM added JOIN given USING (id) GROUP BY added.lane
    )
    ${COUNT}`,
  unique: `WITH ${adding('unique')} ${COUNT}`,
  record: `WITH ${adding('record')} ${COUNT}`,
  // Counts are added up, and the view that does so has no rows of its own to add to.
  operation_tally: /* sql */ `
    WITH added AS (
      INSERT INTO redrive.operation_count (${SECTIONS.operation_tally.columns.join(', ')})
      SELECT ${SECTIONS.operation_tally.columns.join(', ')}
      FROM json_populate_recordset(NULL::redrive.operation_tally, $1) AS given
      WHERE NOT EXISTS (SELECT FROM redrive.operation_count AS own WHERE own.operation = given.operation)
      RETURNING true
    )
    ${COUNT}`,
  group: `WITH ${adding('group')} ${COUNT}`,
  tally: /* sql */ `
    WITH added AS (
      INSERT INTO redrive.group_tally (${SECTIONS.tally.columns.join(', ')})
      SELECT ${SECTIONS.tally.columns.join(', ')} FROM json_populate_recordset(NULL::redrive.group_tally, $1) AS given
      WHERE NOT EXISTS (
        SELECT FROM redrive.group_tally AS known
        WHERE known.failure_group = given.failure_group AND known.hour = given.hour
      )
      RETURNING true
    )
    ${COUNT}`,
  cost: /* sql */ `
    WITH added AS (
      INSERT INTO redrive.cost_tally (${SECTIONS.cost.columns.join(', ')})
      SELECT ${SECTIONS.cost.columns.join(', ')} FROM json_populate_recordset(NULL::redrive.cost_tally, $1) AS given
      WHERE NOT EXISTS (
        SELECT FROM redrive.cost_tally AS known
        WHERE (known.kind, known.key, known.category, known.hour, known.bucket)
          = (given.kind, given.key, given.category, given.hour, given.bucket)
      )
      RETURNING true
    )
    ${COUNT}`,
  run: `WITH ${adding('run')} ${COUNT}`,
  item: `WITH ${adding('item')} ${COUNT}`,
  output: `WITH ${adding('output')} ${COUNT}`,
  key: `WITH ${adding('key')} ${COUNT}`,
  audit: `WITH ${adding('audit')} ${countAndGoOn('audit')}`,
}

function adding(section: Section, derived: Readonly<Record<string, string>> = {}): string {
  const { table, columns } = SECTIONS[section]
  return /* sql */ `added AS (
    INSERT INTO redrive.${table} (${[...columns, ...Object.keys(derived)].join(', ')}) OVERRIDING SYSTEM VALUE
    SELECT ${[...columns, ...Object.values(derived)].join(', ')} FROM json_populate_recordset(NULL::redrive.${table}, $1)
    ON CONFLICT DO NOTHING
    RETURNING ${table}.*
  )`
}

/** Rows that are added later get ids after the moved ones. */
function countAndGoOn(section: 'pause' | 'limit' | 'shared' | 'budget' | 'audit'): string {
  return /* sql */ `
    SELECT count(*) AS answer, setval(pg_get_serial_sequence('redrive.${SECTIONS[section].table}', 'id'), max(id)) FROM added`
}

/** A row as it was before it was written. Half a surrogate pair becomes U+FFFD: no other store could take it. */
function read(row: MovedRow): MovedRow {
  return mapped(row, read, (column, text) => {
    if (column === 'before') return mappedBefore(text, read => Buffer.from(stored(read) ?? '').toString()) ?? ''
    return FREE_TEXTS.has(column) ? Buffer.from(stored(text) ?? '').toString() : text
  })
}

function written(row: MovedRow): MovedRow {
  return mapped(row, written, (column, text) => {
    if (column === 'before') return mappedBefore(text, storable) ?? ''
    if (FREE_TEXTS.has(column)) return storable(text)
    if (isStorable(text)) return text
    throw new OptionError(
      column,
      `'${column}' has a character that PostgreSQL cannot store, so it stays: ${quoted(text)}.`,
    )
  })
}

/** A row with other texts, those of the rows within it too. */
function mapped(
  row: MovedRow,
  mapRow: (row: MovedRow) => MovedRow,
  mapText: (column: string, text: string) => string,
): MovedRow {
  const columns = Object.entries(row).map(([column, value]) => {
    if (typeof value === 'string') return [column, mapText(column, value)]
    return [column, Array.isArray(value) ? value.map(mapRow) : value]
  })
  return Object.fromEntries(columns)
}
