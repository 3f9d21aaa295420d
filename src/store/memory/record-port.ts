import type { RecordName, RecordPlace, RecordPort, StoredRecord } from '../port/record-port.js'
import { compareTexts } from '../rules/cursor.js'

/** The records of a memory store. */
export class MemoryRecords implements RecordPort {
  readonly #types = new Map<string, Map<string, StoredRecord>>()

  get(type: string, id: string): StoredRecord | undefined {
    return this.#of(type).get(id)
  }

  lock(type: string, ids: readonly string[]): StoredRecord[] {
    return [...new Set(ids)].sort(compareTexts).flatMap(id => this.get(type, id) ?? [])
  }

  lockDue(type: string, upTo: number, limit: number): StoredRecord[] {
    return this.#upTo(type, upTo, limit, true)
  }

  nextPlace(type: string): number | undefined {
    let next: number | undefined
    for (const { isOpen, place } of this.#of(type).values()) {
      if (isOpen && (next === undefined || place < next)) next = place
    }
    return next
  }

  lockClosed(type: string, upTo: number, limit: number): StoredRecord[] {
    return this.#upTo(type, upTo, limit, false)
  }

  newest(type: string, isOpenOnly: boolean, before: RecordPlace, limit: number): StoredRecord[] {
    return [...this.#of(type).values()]
      .filter(record => (record.isOpen || !isOpenOnly) && compareRecords(record, before) < 0)
      .sort((a, b) => compareRecords(b, a))
      .slice(0, limit)
  }

  list(type: string, after: string, limit: number): StoredRecord[] {
    return [...this.#of(type).values()]
      .filter(({ id }) => compareTexts(id, after) > 0)
      .sort((a, b) => compareTexts(a.id, b.id))
      .slice(0, limit)
  }

  all(after: RecordName, limit: number): (RecordName & StoredRecord)[] {
    return [...this.#types]
      .flatMap(([type, records]) => [...records.values()].map(record => ({ ...record, type })))
      .filter(record => compareNames(record, after) > 0)
      .sort(compareNames)
      .slice(0, limit)
  }

  listBack(type: string, before: string, limit: number): StoredRecord[] {
    return [...this.#of(type).values()]
      .filter(({ id }) => compareTexts(id, before) < 0)
      .sort((a, b) => compareTexts(b.id, a.id))
      .slice(0, limit)
  }

  save(type: string, records: readonly StoredRecord[]): void {
    for (const record of records) this.#of(type).set(record.id, record)
  }

  drop(type: string, ids: readonly string[]): void {
    for (const id of ids) this.#of(type).delete(id)
  }

  dropClosed(type: string, upTo: number, limit: number): number {
    const closed = this.lockClosed(type, upTo, limit)
    for (const { id } of closed) this.#of(type).delete(id)
    return closed.length
  }

  #upTo(type: string, upTo: number, limit: number, areOpen: boolean): StoredRecord[] {
    return [...this.#of(type).values()]
      .filter(({ isOpen, place }) => isOpen === areOpen && place <= upTo)
      .sort(compareRecords)
      .slice(0, limit)
  }

  #of(type: string): Map<string, StoredRecord> {
    const records = this.#types.get(type) ?? new Map<string, StoredRecord>()
    this.#types.set(type, records)
    return records
  }
}

function compareRecords(a: RecordPlace, b: RecordPlace): number {
  return a.place - b.place || compareTexts(a.id, b.id)
}

function compareNames(a: RecordName, b: RecordName): number {
  return compareTexts(a.type, b.type) || compareTexts(a.id, b.id)
}
