import { OptionError } from '../policy/index.js'
import { checkOptions, DURATION, isObject, type KnownOptions, mustBe, quoted } from '../policy/internal.js'
import type { LaneSelection } from '../store/index.js'
import type { BlastRadius, CollectionOptions, DocumentEvent, FieldNames, Statuses } from './collection.js'

const COLLECTION: KnownOptions<CollectionOptions> = {
  name: '',
  event: '',
  fields: '',
  statuses: '',
  time: '',
  policy: '',
  stuckAfter: '',
  startWithin: '',
  priority: '',
  lane: '',
  isHealthy: 'function',
  blastRadius: '',
  archive: '',
}
const EVENT: KnownOptions<DocumentEvent> = { type: '', name: '', data: '' }
const FIELDS: KnownOptions<FieldNames> = {
  id: '',
  status: '',
  attemptCount: '',
  lastAttemptTime: '',
  generation: '',
  retryAt: '',
  dispatches: '',
  createdAt: '',
  lastError: '',
}
const STATUSES: KnownOptions<Statuses> = { pending: '', processing: '', done: '', failed: '' }
const BLAST_RADIUS: KnownOptions<BlastRadius> = { share: '', atLeast: '', first: '', isWarning: '' }
const ARCHIVE: KnownOptions<NonNullable<CollectionOptions['archive']>> = { into: '', after: '' }
const LANE: KnownOptions<LaneSelection> = { kind: '', category: '', key: '' }
const PRIORITY = { field: '' } as const

/** Throws an `OptionError` for a setting of a collection, at any level, that is unknown, or missing although it is required. */
export function checkCollection(options: CollectionOptions): void {
  if (!isObject(options)) throw new OptionError('collections', mustBe('collections', 'a list of objects', options))
  const { name, event, fields, statuses, priority, lane, blastRadius, archive } = options
  if (!isText(name)) throw new OptionError('name', `Every collection needs a name: ${mustBe('name', 'text', name)}`)
  const must = (option: string, holds: boolean, expected: string, value: unknown) => {
    if (!holds) throw new OptionError(option, `Collection ${quoted(name)}: ${mustBe(option, expected, value)}`)
  }
  const check = (option: string, value: object | undefined, known: Parameters<typeof checkOptions>[2]) => {
    if (value === undefined) return
    must(option, isObject(value), 'an object', value)
    checkOptions(`'${option}' of collection ${quoted(name)}`, value, known)
  }
  checkOptions(`Collection ${quoted(name)}`, options, COLLECTION)
  must('event', isObject(event), "an object with 'type' and 'data'", event)
  check('event', event, EVENT)
  must('event.type', isText(event.type), 'text', event.type)
  must('event.data', typeof event.data === 'function', 'a function', event.data)
  check('fields', fields, FIELDS)
  check('statuses', statuses, STATUSES)
  check('blastRadius', blastRadius, BLAST_RADIUS)
  if (priority !== 'recent') {
    check('priority', priority, PRIORITY)
    must('priority.field', priority === undefined || isText(priority.field), 'text', priority?.field)
  }
  check('lane', lane, LANE)
  must('lane.kind', lane === undefined || isText(lane.kind), 'text', lane?.kind)
  check('archive', archive, ARCHIVE)
  must('archive.into', archive === undefined || isText(archive.into), 'the name of a collection', archive?.into)
  must('archive.after', archive === undefined || archive.after !== undefined, DURATION, archive?.after)
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}
