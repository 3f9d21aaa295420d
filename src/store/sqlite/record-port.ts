import type { RecordName, RecordPlace, RecordPort, StoredRecord } from '../port/record-port.js'
import { compareTexts } from '../rules/cursor.js'
import type { RecordRow, RecordStatements } from './statements/record-port.js'

/** The primitives of records on SQLite. */
export class SqliteRecordPort implements RecordPort {
  readonly #records: RecordStatements

  constructor(records: RecordStatements) {
    this.#records = records
  }

  get(type: string, id: string): StoredRecord | undefined {
    const row = this.#records.get.get(type, id)
    return row && recordOf(row)
  }

  lock(type: string, ids: readonly string[]): StoredRecord[] {
    return [...new Set(ids)].sort(compareTexts).flatMap(id => this.get(type, id) ?? [])
  }

  lockDue(type: string, upTo: number, limit: number): StoredRecord[] {
    return this.#records.due.all(type, upTo, limit).map(recordOf)
  }

  nextPlace(type: string): number | undefined {
    return this.#records.nextPlace.get(type)
  }

  lockClosed(type: string, upTo: number, limit: number): StoredRecord[] {
    return this.#records.closed.all(type, upTo, limit).map(recordOf)
  }

  newest(type: string, isOpenOnly: boolean, { place, id }: RecordPlace, limit: number): StoredRecord[] {
    const { newest, newestOpen } = this.#records
    return (isOpenOnly ? newestOpen : newest).all(type, place, id, limit).map(recordOf)
  }

  list(type: string, after: string, limit: number): StoredRecord[] {
    return this.#records.list.all(type, after, limit).map(recordOf)
  }

  all({ type, id }: RecordName, limit: number): (RecordName & StoredRecord)[] {
    return this.#records.all.all(type, id, limit).map(({ type, ...row }) => ({ ...recordOf(row), type }))
  }

  listBack(type: string, before: string, limit: number): StoredRecord[] {
    return this.#records.listBack.all(type, before, limit).map(recordOf)
  }

  save(type: string, records: readonly StoredRecord[]): void {
    for (const { isOpen, ...record } of records) this.#records.save.run({ type, ...record, open: isOpen ? 1 : 0 })
  }

  drop(type: string, ids: readonly string[]): void {
    for (const id of ids) this.#records.drop.run(type, id)
  }

  dropClosed(type: string, upTo: number, limit: number): number {
    return this.#records.dropClosed.run({ type, upTo, limit }).changes
  }
}

function recordOf({ open, ...row }: RecordRow): StoredRecord {
  return { ...row, isOpen: open === 1 }
}
