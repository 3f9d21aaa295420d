import {
  type Duration,
  extendPolicy,
  OptionError,
  type Policy,
  type PolicyInput,
  parseDuration,
  policy,
} from '../policy/index.js'
import { DURATION, mustBe, quoted } from '../policy/internal.js'
import type { LaneSelection } from '../store/index.js'
import { checkCollection } from './check-collection.js'
import type { DocumentRecord } from './source.js'

/** The names of a collection's fields. Redrive reads and writes no others. */
export interface FieldNames {
  /** Tells documents apart. Default `id`, or `_id` in MongoDB. */
  readonly id?: string
  /** The field with the status. Default `status`. */
  readonly status: string
  /** How often the document was attempted. Missing means 0. */
  readonly attemptCount: string
  /** When it was last attempted. Missing means never. */
  readonly lastAttemptTime: string
  /** With `retryAt`: attempts are counted when they begin, not when they are requeued. A whole number. */
  readonly generation?: string
  /** With `generation`: no sweep touches the document before this time. */
  readonly retryAt?: string
  /** Counts dispatches since the last start: with `generation` alone. */
  readonly dispatches?: string
  /** When the document was created. A document that was never attempted is then stuck only once it is old enough. */
  readonly createdAt?: string
  /** Keeps the last error, as text. */
  readonly lastError?: string
}

/** The values of the status field. */
export interface Statuses {
  /** Waits for a service. Default `pending`. */
  readonly pending: string
  /** A service works on it. Default `processing`. */
  readonly processing: string
  /** Its work is done. Default `processed`. */
  readonly done: string
  /** Has used up its attempts. Default `failed_max_retries`. */
  readonly failed: string
}

/**
 * How times are stored where a column's type does not say it: as a date of MongoDB, as ISO text, or as milliseconds or
 * seconds since the epoch.
 */
export type TimeFormat = 'date' | 'iso' | 'ms' | 's'

/** A collection as sources see it. */
export interface Shape {
  /** The table or collection. */
  readonly name: string
  /** The names of its fields. */
  readonly fields: FieldNames
  /** The values of its status field. */
  readonly statuses: Statuses
  /** How its times are stored; `undefined` if the column says it. */
  readonly time: TimeFormat | undefined
  /** The field that `priority` walks are ordered by, highest first. */
  readonly priority: string | undefined
}

/** The event that makes a service work on a document. */
export interface DocumentEvent {
  /** The type that decides which queues take it, such as `archive.ingested`. */
  readonly type: string
  /** The name in the envelope, `event_type`. Default: the type. */
  readonly name?: string
  /** The data of the event, as plain JSON. */
  data(document: DocumentRecord): object
}

/** When too much of a collection is stuck, a sweep sends a first part and reports. */
export interface BlastRadius {
  /** The share of a collection, from 0 to 1. Default 0.2. */
  readonly share?: number
  /** Fewer documents than this never count as too many. Default 100. */
  readonly atLeast?: number
  /** How many a sweep sends when too many are stuck. Default 100. */
  readonly first?: number
  /** Whether to send all of them and only report. */
  readonly isWarning?: boolean
}

/** A collection whose documents are swept. */
export interface CollectionOptions {
  /** The name of the table or collection. In PostgreSQL it may have a schema: `public.archives`. */
  readonly name: string
  /** The event that makes a service work on a document. */
  readonly event: DocumentEvent
  /** The names of its fields, where they differ from the default. */
  readonly fields?: Partial<FieldNames>
  /** The values of its status field, where they differ from the default. */
  readonly statuses?: Partial<Statuses>
  /** How its times are stored. Default: as the column's type says. */
  readonly time?: TimeFormat
  /** Overrides the sweeper's policy, field by field. */
  readonly policy?: PolicyInput
  /** How old the last attempt must be. Overrides the sweeper's. */
  readonly stuckAfter?: Duration
  /** How long a dispatched document has to begin, and a lease lasts, where attempts count at the beginning. Default: `stuckAfter`, or 24 h if that is 0. */
  readonly startWithin?: Duration
  /** Which documents go first, nine of ten: the most recently created, or those with the highest value. One of ten goes by age. */
  readonly priority?: 'recent' | { readonly field: string }
  /** A lane of the store: while it is held or paused, the documents wait and spend nothing. */
  readonly lane?: LaneSelection
  /** Whether the services behind it work. While they do not, the documents wait and spend nothing. */
  readonly isHealthy?: () => boolean | Promise<boolean>
  /** Limits a sweep when too much of the collection is stuck. */
  readonly blastRadius?: BlastRadius
  /** Where failed documents are moved, and how long after their last attempt. */
  readonly archive?: { readonly into: string; readonly after: Duration }
}

/** Settings that collections share. */
export interface SharedSettings {
  /** Overrides the default, field by field: 3 attempts, 5 minutes doubling up to an hour, no jitter. */
  readonly policy?: PolicyInput
  /** How old the last attempt of a stuck document is. Default 24 h. 0 leaves it to the backoff. */
  readonly stuckAfter?: Duration
}

/** A collection with all its settings. */
export interface Collection {
  /** The table or collection. */
  readonly name: string
  /** How sources see it. */
  readonly shape: Shape
  /** The event that makes a service work on a document. */
  readonly event: DocumentEvent
  /** The policy that decides about its documents. */
  readonly policy: Policy
  /** How old the last attempt of a stuck document is. */
  readonly stuckAfterMs: number
  /** How long a dispatched document has to begin, and how long a lease lasts. */
  readonly startWithinMs: number
  /** Whether attempts are counted when they begin. Otherwise the requeue counts. */
  readonly countsAtBegin: boolean
  /** While this lane is held or paused, its documents wait. */
  readonly lane: LaneSelection | undefined
  /** Whether the services behind it work. */
  readonly isHealthy: () => boolean | Promise<boolean>
  /** Limits a sweep when too much of the collection is stuck. */
  readonly blastRadius: Required<BlastRadius>
  /** Where failed documents are moved, and when. */
  readonly archive: { readonly into: string; readonly afterMs: number } | undefined
}

/** The policy of documents: three attempts, from five minutes to an hour apart. */
export const DOCUMENT_POLICY = /* @__PURE__ */ policy({
  attempts: 3,
  backoff: { base: '5m', factor: 2, max: '1h' },
  jitter: 'none',
})

const FIELDS: FieldNames = { status: 'status', attemptCount: 'attemptCount', lastAttemptTime: 'lastAttemptTime' }
const STATUSES: Statuses = {
  pending: 'pending',
  processing: 'processing',
  done: 'processed',
  failed: 'failed_max_retries',
}
const DAY_MS = 86_400_000
const TIMES: readonly unknown[] = ['date', 'iso', 'ms', 's', undefined]

/** Checks a collection and fills in its defaults. */
export function collectionOf(options: CollectionOptions, shared: SharedSettings = {}): Collection {
  checkCollection(options)
  const fields = { ...FIELDS, ...options.fields }
  const statuses = { ...STATUSES, ...options.statuses }
  const { name, event, time, priority, isHealthy = () => true } = options
  const priorityName = priorityField(name, fields, priority)
  const { archive } = options
  checkNames(name, [name, ...Object.values(fields), ...Object.values(statuses), priorityName, archive?.into])
  if ((fields.generation === undefined) !== (fields.retryAt === undefined))
    throw new OptionError('fields', `Collection ${quoted(name)} must name both 'generation' and 'retryAt', or neither.`)
  if (fields.dispatches !== undefined && fields.generation === undefined)
    throw new OptionError('fields', `Collection ${quoted(name)}: 'dispatches' needs 'generation' and 'retryAt'.`)
  if (!TIMES.includes(time)) throw new OptionError('time', mustBe('time', `'date', 'iso', 'ms' or 's'`, time))
  const stuckAfterMs = durationOf('stuckAfter', options.stuckAfter ?? shared.stuckAfter ?? '24h')
  const documentPolicy = extendPolicy(extendPolicy(DOCUMENT_POLICY, shared.policy ?? {}), options.policy ?? {})
  if (documentPolicy.ttl !== undefined && fields.createdAt === undefined)
    throw new OptionError('policy', `Collection ${quoted(name)}: a time to live needs the field 'createdAt'.`)
  return {
    name,
    shape: { name, fields, statuses, time, priority: priorityName },
    event,
    policy: documentPolicy,
    stuckAfterMs,
    startWithinMs: startWithinOf(options.startWithin ?? (stuckAfterMs || DAY_MS)),
    countsAtBegin: fields.generation !== undefined,
    lane: options.lane,
    isHealthy,
    blastRadius: blastRadiusOf(options.blastRadius),
    archive: archive && { into: archive.into, afterMs: durationOf('archive.after', archive.after) },
  }
}

/** A lease of no length would let a sweep take documents away from healthy attempts. */
function startWithinOf(startWithin: Duration): number {
  const ms = durationOf('startWithin', startWithin)
  if (ms < 1) throw new OptionError('startWithin', mustBe('startWithin', 'a duration above 0', startWithin))
  return ms
}

function blastRadiusOf(given: BlastRadius = {}): Required<BlastRadius> {
  const radius = { share: 0.2, atLeast: 100, first: 100, isWarning: false, ...given }
  const { share, atLeast, first } = radius
  if (!(share >= 0 && share <= 1))
    throw new OptionError('blastRadius', mustBe('blastRadius.share', 'a number from 0 to 1', share))
  for (const [name, value] of Object.entries({ atLeast, first })) {
    if (!(Number.isInteger(value) && value >= 0))
      throw new OptionError('blastRadius', mustBe(`blastRadius.${name}`, 'a whole number, 0 or more', value))
  }
  return radius
}

function priorityField(name: string, fields: FieldNames, priority: CollectionOptions['priority']): string | undefined {
  if (priority !== 'recent') return priority?.field
  if (fields.createdAt === undefined)
    throw new OptionError('priority', `Collection ${quoted(name)}: 'recent' needs the field 'createdAt'.`)
  return fields.createdAt
}

/** Names are written into statements, as quoted identifiers and literals; these characters have a meaning there. */
export function checkNames(collection: string, names: readonly unknown[]): void {
  for (const name of names) {
    if (name === undefined) continue
    if (typeof name !== 'string' || name === '' || name.length > 120 || /["'@$\\\p{Cc}]/u.test(name))
      throw new OptionError('name', `A name of collection ${quoted(collection)} cannot be used: ${quoted(name)}.`)
  }
}

/** A duration in milliseconds. */
export function durationOf(option: string, value: Duration): number {
  const ms = parseDuration(value)
  if (ms === undefined) throw new OptionError(option, mustBe(option, DURATION, value))
  return ms
}
