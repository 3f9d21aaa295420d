import type { OperationRecord } from '../../store/internal.js'

/** Acts on the members of one operation that are outside of the store. It walks over them once, batch by batch. */
export interface OutsideWork {
  /** Acts on at most `limit` more members; returns early when the signal aborts. */
  act(operation: OperationRecord, limit: number, signal: AbortSignal): Promise<OutsideBatch>
  /** Ends the walk. */
  close(): Promise<void>
}

/** The result of a batch. */
export interface OutsideBatch {
  /** How many members it acted on. */
  readonly moved: number
  /** All members that the walk has left alone, by reason. */
  readonly refused: Readonly<Record<string, number>>
  /** All documents that the walk has met and that are not in the set. */
  readonly unmatched?: number | undefined
  /** Whether the walk is over. */
  readonly isRead: boolean
  /** The failure that ended the batch early. Members moved before it are still recorded. */
  readonly failure?: unknown
}

/** Begins to work on an operation; `undefined` if its members cannot be reached from here. */
export type OutsideTarget = (operation: OperationRecord) => OutsideWork | undefined
