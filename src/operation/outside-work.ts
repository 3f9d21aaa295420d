import type { OperationRecord } from '../store/index.js'

/** Acts on the members of one operation that are outside of the store. It walks over them once, batch by batch. */
export interface OutsideWork {
  /** Acts on up to so many members more, and returns early when the signal aborts. */
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
  /** Why it ended early. What it had moved by then is noted all the same. */
  readonly failure?: unknown
}

/** Begins to work on an operation; `undefined` if its members cannot be reached from here. */
export type OutsideTarget = (operation: OperationRecord) => OutsideWork | undefined
