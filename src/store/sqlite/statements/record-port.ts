import type { Preparer } from '../driver.js'
import { oncePerConnection } from './once-per-connection.js'

/** The statements of records by name, prepared on one connection. */
export type RecordStatements = ReturnType<typeof prepare>

/** A row of the table `record`, but for its type. */
export interface RecordRow {
  readonly id: string
  readonly place: number
  readonly open: number
  readonly state: string
}

function prepare(db: Preparer) {
  return {
    get: db.prepare<[string, string], RecordRow>(/* sql */ `
      SELECT id, place, open, state FROM record WHERE type = ? AND id = ?`),
    due: db.prepare<[string, number, number], RecordRow>(/* sql */ `
      SELECT id, place, open, state FROM record INDEXED BY record_open
      WHERE type = ? AND open = 1 AND place <= ? ORDER BY place, id LIMIT ? + 0`),
    nextPlace: db
      .prepare<[string], number>(/* sql */ `
        SELECT place FROM record INDEXED BY record_open WHERE type = ? AND open = 1 ORDER BY place, id LIMIT 1`)
      .pluck(),
    closed: db.prepare<[string, number, number], RecordRow>(/* sql */ `
      SELECT id, place, open, state FROM record INDEXED BY record_place
      WHERE type = ? AND open = 0 AND place <= ? ORDER BY place, id LIMIT ? + 0`),
    newest: db.prepare<[string, number, string, number], RecordRow>(newest('record_place', 'true')),
    newestOpen: db.prepare<[string, number, string, number], RecordRow>(newest('record_open', 'open = 1')),
    list: db.prepare<[string, string, number], RecordRow>(/* sql */ `
      SELECT id, place, open, state FROM record WHERE type = ? AND id > ? ORDER BY id LIMIT ? + 0`),
    all: db.prepare<[string, string, number], RecordRow & { readonly type: string }>(/* sql */ `
      SELECT type, id, place, open, state FROM record WHERE (type, id) > (?, ?) ORDER BY type, id LIMIT ? + 0`),
    listBack: db.prepare<[string, string, number], RecordRow>(/* sql */ `
      SELECT id, place, open, state FROM record WHERE type = ? AND id < ? ORDER BY id DESC LIMIT ? + 0`),
    save: db.prepare<RecordRow & { readonly type: string }>(/* sql */ `
      INSERT INTO record (type, id, place, open, state) VALUES (:type, :id, :place, :open, :state)
      ON CONFLICT (type, id) DO UPDATE SET place = excluded.place, open = excluded.open, state = excluded.state`),
    drop: db.prepare<[string, string]>(/* sql */ `DELETE FROM record WHERE type = ? AND id = ?`),
    dropClosed: db.prepare<{ readonly type: string; readonly upTo: number; readonly limit: number }>(/* sql */ `
      DELETE FROM record WHERE type = :type AND id IN (
        SELECT id FROM record INDEXED BY record_place
        WHERE type = :type AND open = 0 AND place <= :upTo ORDER BY place, id LIMIT :limit + 0
      )`),
  }
}

function newest(index: string, condition: string): string {
  return /* sql */ `
    SELECT id, place, open, state FROM record INDEXED BY ${index}
    WHERE type = ? AND ${condition} AND (place, id) < (?, ?) ORDER BY place DESC, id DESC LIMIT ? + 0`
}

/** The statements of records of a connection. */
export const recordStatementsOf = oncePerConnection(prepare)
