import type { RecordName, RecordPlace, RecordPort, StoredRecord } from '../port/record-port.js'
import type { Promised } from '../port/steps.js'
import { int4, type Sql } from './database.js'

/** The primitives of records on PostgreSQL. */
export class PostgresRecordPort implements Promised<RecordPort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async get(type: string, id: string): Promise<StoredRecord | undefined> {
    return ((await this.#sql.call('get_record', [type, id])) as StoredRecord | null) ?? undefined
  }

  lock(type: string, ids: readonly string[]): Promise<StoredRecord[]> {
    return this.#read('lock_records', [type, ids])
  }

  lockDue(type: string, upTo: number, limit: number): Promise<StoredRecord[]> {
    return this.#read('lock_due_records', [type, upTo, int4(limit)])
  }

  async nextPlace(type: string): Promise<number | undefined> {
    const place = await this.#sql.call('next_record_place', [type])
    return place === null ? undefined : Number(place)
  }

  lockClosed(type: string, upTo: number, limit: number): Promise<StoredRecord[]> {
    return this.#read('lock_closed_records', [type, upTo, int4(limit)])
  }

  newest(type: string, isOpenOnly: boolean, { place, id }: RecordPlace, limit: number): Promise<StoredRecord[]> {
    return this.#read('newest_records', [type, isOpenOnly, place, id, int4(limit)])
  }

  list(type: string, after: string, limit: number): Promise<StoredRecord[]> {
    return this.#read('list_records', [type, after, int4(limit)])
  }

  async all({ type, id }: RecordName, limit: number): Promise<(RecordName & StoredRecord)[]> {
    return (await this.#sql.call('all_records', [type, id, int4(limit)])) as (RecordName & StoredRecord)[]
  }

  listBack(type: string, before: string, limit: number): Promise<StoredRecord[]> {
    return this.#read('list_records_back', [type, before, int4(limit)])
  }

  async save(type: string, records: readonly StoredRecord[]): Promise<void> {
    if (records.length > 0) await this.#sql.call('save_records', [type, JSON.stringify(records)])
  }

  async drop(type: string, ids: readonly string[]): Promise<void> {
    await this.#sql.call('drop_records', [type, ids])
  }

  async dropClosed(type: string, upTo: number, limit: number): Promise<number> {
    return Number(await this.#sql.call('drop_closed_records', [type, upTo, int4(limit)]))
  }

  async #read(fn: string, values: unknown[]): Promise<StoredRecord[]> {
    return (await this.#sql.call(fn, values)) as StoredRecord[]
  }
}
