/** A record of any type: JSON, with the columns that it is found by. */
export interface StoredRecord {
  /** Its name among the records of its type. */
  readonly id: string
  /** Its place in their order: a time. */
  readonly place: number
  /** Whether it is among those that are due once their time has come. */
  readonly isOpen: boolean
  readonly state: string
}

/** A record's place among those of its type: the order of a list by time. */
export type RecordPlace = Pick<StoredRecord, 'place' | 'id'>

/** Tells a record from all others. */
export interface RecordName {
  readonly type: string
  readonly id: string
}

/**
 * The primitives of records. A feature whose state is a JSON document needs no table and no SQL of its own: it picks a type,
 * says what a record's place is and when it is open, and `moveStore` takes its records along. Ids are compared by their code
 * points.
 */
export interface RecordPort {
  get(type: string, id: string): StoredRecord | undefined
  /**
   * Those of the records that exist, in the order of their ids. Nobody else changes them until the transaction ends, or adds
   * one of the others, provided that they lock it first.
   */
  lock(type: string, ids: readonly string[]): readonly StoredRecord[]
  /** Open records up to a place, the first ones first, locked. Leaves out those that another transaction has locked. */
  lockDue(type: string, upTo: number, limit: number): readonly StoredRecord[]
  /** The place of the first open record; `undefined` if there is none. */
  nextPlace(type: string): number | undefined
  /** Records up to a place that are not open, locked and in the same way. */
  lockClosed(type: string, upTo: number, limit: number): readonly StoredRecord[]
  /** Records from before a place, newest first; all of them, or those that are open. */
  newest(type: string, isOpenOnly: boolean, before: RecordPlace, limit: number): readonly StoredRecord[]
  /** Records behind an id, in the order of their ids. */
  list(type: string, after: string, limit: number): readonly StoredRecord[]
  /** Records of all types behind one, in the order of types and ids. */
  all(after: RecordName, limit: number): readonly (RecordName & StoredRecord)[]
  /** Records before an id, the last one first. */
  listBack(type: string, before: string, limit: number): readonly StoredRecord[]
  /** Adds records, or replaces them. */
  save(type: string, records: readonly StoredRecord[]): void
  drop(type: string, ids: readonly string[]): void
  /** Drops records up to a place that are not open, the first ones first. Returns how many. */
  dropClosed(type: string, upTo: number, limit: number): number
}
