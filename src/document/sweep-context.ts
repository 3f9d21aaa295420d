import type { Bus } from '../bus/index.js'
import type { StoreContract } from '../store/internal.js'
import type { Sink } from '../telemetry/index.js'
import type { CollectionReport } from '../telemetry/internal.js'
import type { DocumentSource } from './source.js'

/** The surroundings of a sweep. A dry run publishes nothing, so it has no bus. */
export type SweepContext = DrySweep | LiveSweep

interface DrySweep extends Surroundings {
  readonly isDryRun: true
}

/** The surroundings of a sweep that requeues documents. */
export interface LiveSweep extends Surroundings {
  readonly isDryRun: false
  readonly bus: Bus
}

interface Surroundings {
  readonly source: DocumentSource
  readonly store?: StoreContract | undefined
  readonly sink?: Sink | undefined
  readonly pageSize: number
  /** Whether to send all documents, however many are stuck. */
  readonly isConfirmed: boolean
  /** Ends the sweep after the page that is being swept. */
  readonly signal?: AbortSignal | undefined
}

/** The report of a collection while it is being swept. */
export type Counts = { -readonly [K in keyof CollectionReport]: CollectionReport[K] }
