import type { Bus } from '../bus/index.js'
import type { Store } from '../store/index.js'
import type { CollectionReport, Sink } from '../telemetry/index.js'
import type { DocumentSource } from './source.js'

/** The surroundings of a sweep. */
export interface SweepContext {
  readonly source: DocumentSource
  readonly bus: Bus
  readonly store?: Store | undefined
  readonly sink?: Sink | undefined
  readonly pageSize: number
  readonly isDryRun: boolean
  /** Whether to send all documents, however many are stuck. */
  readonly isConfirmed: boolean
  /** Ends the sweep after the page that is being swept. */
  readonly signal?: AbortSignal | undefined
}

/** The report of a collection while it is being swept. */
export type Counts = { -readonly [K in keyof CollectionReport]: CollectionReport[K] }
