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
import { State, statusOf } from '../rules/task-state.js'
import type { Connection } from './driver.js'
import { LaneBook } from './lane-book.js'
import { joinQuota, type LaneIds, makeLane } from './lane-ids.js'
import { statementsOf } from './statements.js'

interface MovedLane extends MovedRow {
  readonly kind: string
  readonly category: string
  readonly key: string
}

interface MovedTask extends MovedLane {
  readonly state: number
  readonly is_blocking: number
  readonly ledger: readonly MovedRow[]
  readonly steps: readonly MovedRow[]
}

/** Reads a page of a section. */
export function exportPage(db: Connection, section: Section, { limit, after }: PageRequest): Page<MovedRow> {
  const { table, key, columns } = SECTIONS[section]
  const order = key.map(column => `${table}.${column}`).join(', ')
  const place = after === undefined ? [] : placeOf(after)
  const rows = db
    .prepare<unknown[], MovedRow>(/* sql */ `
      SELECT ${columns.map(column => `${table}.${column}`).join(', ')} ${MORE[section] ?? ''}
      FROM ${table} ${section === 'task' ? 'JOIN lane ON lane.id = task.lane' : ''}
      ${after === undefined ? '' : `WHERE (${order}) > (${place.map(() => '?').join(', ')})`}
      ORDER BY ${order}
      LIMIT ?`)
    .all(...place, limit)
  return pageOf(section, section === 'task' ? withHistories(db, rows) : rows, limit)
}

/** What the rows of a section have besides its columns. */
const MORE: Readonly<Partial<Record<Section, string>>> = {
  lane: ', (SELECT its.quota FROM shared_limit AS its WHERE its.id = lane.shared) AS quota',
  task: ', lane.kind, lane.category, lane.key, task.seq, task.blocks IS NOT NULL AS is_blocking',
}

function withHistories(db: Connection, tasks: readonly MovedRow[]): MovedRow[] {
  const ledger = db.prepare<unknown[], MovedRow>(/* sql */ `
    SELECT ${ENTRY_COLUMNS.join(', ')} FROM ledger WHERE task = :seq
    UNION ALL
    SELECT ${inlineEntry('ledger WHERE ledger.task = task.seq')} FROM task JOIN lane ON lane.id = task.lane
    WHERE seq = :seq AND state = 4 AND ran_attempt IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM ledger WHERE task = :seq AND sequence = entries)
    ORDER BY sequence`)
  const steps = db.prepare<unknown[], MovedRow>(/* sql */ `
    SELECT ${STEP_COLUMNS.join(', ')} FROM step WHERE task = :seq ORDER BY sequence`)
  return tasks.map(({ seq, ...task }) => ({ ...task, ledger: ledger.all({ seq }), steps: steps.all({ seq }) }))
}

/** Adds rows that do not exist yet. Returns how many were new. Within a transaction. */
export function importRows(db: Connection, lanes: LaneIds, section: Section, rows: readonly MovedRow[]): number {
  switch (section) {
    case 'lane':
      return importLanes(db, rows as Parameters<typeof importLanes>[1])
    case 'task':
      return importTasks(db, lanes, rows as readonly MovedTask[])
    default: {
      const insert = inserting(db, SECTIONS[section].table, SECTIONS[section].columns)
      return rows.filter(row => insert.run(row).changes > 0).length
    }
  }
}

function importLanes(db: Connection, rows: readonly (MovedLane & { readonly quota: string | null })[]): number {
  const statements = statementsOf(db)
  const { columns } = SECTIONS.lane
  const fill = db.prepare(/* sql */ `
    UPDATE lane SET ${columns.map(column => `${column} = :${column}`).join(', ')} WHERE id = :id`)
  const added = rows.filter(({ kind, category, key }) => statements.laneId.get(kind, category, key) === undefined)
  for (const row of added) {
    const id = makeLane(statements, row)
    fill.run({ ...row, id })
    if (row.quota !== null) joinQuota(statements, id, row.kind, row.quota)
  }
  return added.length
}

function importTasks(db: Connection, lanes: LaneIds, tasks: readonly MovedTask[]): number {
  const statements = statementsOf(db)
  const insert = inserting(db, 'task', [...SECTIONS.task.columns, 'lane', 'blocks'])
  const insertEntry = inserting(db, 'ledger', [...ENTRY_COLUMNS, 'task'])
  const insertStep = inserting(db, 'step', [...STEP_COLUMNS, 'task'])
  const book = new LaneBook(statements)
  const added = tasks.filter(({ ledger, steps, is_blocking, ...task }) => {
    const lane = lanes.of(task.kind, task.category, task.key)
    const { changes, lastInsertRowid } = insert.run({ ...task, lane, blocks: is_blocking === 1 ? lane : null })
    if (changes === 0) return false
    for (const entry of ledger) insertEntry.run({ ...entry, task: lastInsertRowid })
    for (const step of steps) insertStep.run({ ...step, task: lastInsertRowid })
    if (task.state === State.budgeted) statements.placeBudgeted.run(lastInsertRowid)
    book.move(lane, undefined, statusOf(task.state))
    return true
  })
  book.write()
  return added.length
}

function inserting(db: Connection, table: string, columns: readonly string[]) {
  return db.prepare(/* sql */ `
    INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(column => `:${column}`).join(', ')})
    ON CONFLICT DO NOTHING`)
}
