import { MemoryBus, textOf } from '../../bus/index.js'
import type { CollectionOptions, Cut, DocumentRecord, DocumentSource, Selection, Shape } from '../../document/index.js'
import { collectionOf } from '../../document/internal.js'

/** A document to insert. Times are milliseconds since the epoch; a field that is left out is missing, or null. */
export interface NewDocument {
  /** Its id, as text. */
  readonly id: string
  /** The value of its status field. */
  readonly status?: string
  /** How often it was attempted. */
  readonly attemptCount?: number
  /** When it was last attempted. */
  readonly lastAttemptTime?: number
  /** Its generation. */
  readonly generation?: number
  /** No sweep before this time. */
  readonly retryAt?: number
  /** When it was created. */
  readonly createdAt?: number
  /** Higher goes first. */
  readonly priority?: number
}

/** A source for one case, and a database that cases can fill. */
export interface SourceUnderTest {
  /** The source to test. */
  readonly source: DocumentSource
  /** Another connection to the same database. */
  readonly other: DocumentSource
  /**
   * Creates an empty collection with the fields `id` (text), `status`, `attemptCount`, `lastAttemptTime`, `generation`,
   * `retryAt`, `dispatches`, `createdAt`, `lastError` and `priority` (a number). Returns its name.
   */
  create(): Promise<string>
  /** Inserts documents. */
  insert(collection: string, documents: readonly NewDocument[]): Promise<void>
  /** Settings that its collections need. */
  readonly settings?: Pick<CollectionOptions, 'fields' | 'time'>
  /** Frees what `open` made. */
  close?(): Promise<void>
}

/** The surroundings of a case. */
export interface Scene extends SourceUnderTest {
  /** The database's clock when the case began. */
  readonly now: number
  readonly name: string
  readonly collection: CollectionOptions
  /** The same collection, with attempts that count when they begin. */
  readonly atBegin: CollectionOptions
  readonly shape: Shape
}

/** Shows one piece of behaviour; rejects if the source does not have it. */
export type SourceBehaviours = Readonly<Record<string, (scene: Scene) => Promise<void>>>

export const HOUR = 3_600_000
export const DAY = 24 * HOUR

/** Makes the surroundings of a case. */
export async function sceneOf(under: SourceUnderTest): Promise<Scene> {
  const name = await under.create()
  const event = { type: `${name}.stuck`, name: 'Stuck', data: ({ id }: DocumentRecord) => ({ id }) }
  const tracked = { lastError: 'lastError', ...under.settings?.fields }
  const collection: CollectionOptions = { name, event, time: under.settings?.time, fields: tracked }
  const fenced = { ...tracked, generation: 'generation', retryAt: 'retryAt', dispatches: 'dispatches' }
  const atBegin: CollectionOptions = { ...collection, fields: fenced }
  const now = await under.source.now()
  return { ...under, now, name, collection, atBegin, shape: collectionOf(collection).shape }
}

/** A day before now. */
export function dayBefore(now: number): Cut {
  return { now, stuckBefore: now - DAY }
}

/** The ids that a walk gives, in order. */
export async function idsOf(
  source: DocumentSource,
  shape: Shape,
  selection: Selection,
  pageSize = 2,
): Promise<string[]> {
  return (await recordsOf(source, shape, selection, pageSize)).map(({ id }) => id)
}

/** The documents that a walk gives, in order. */
export async function recordsOf(
  source: DocumentSource,
  shape: Shape,
  selection: Selection,
  pageSize = 2,
): Promise<DocumentRecord[]> {
  const records: DocumentRecord[] = []
  for await (const page of source.walk(shape, selection, { pageSize })) records.push(...page)
  return records
}

/** A document that must be there. */
export async function found(source: DocumentSource, shape: Shape, id: string): Promise<DocumentRecord> {
  const document = await source.find(shape, id)
  if (document === undefined) throw new Error(`There is no document '${id}'.`)
  return document
}

/** A source with some verbs of another kind: one that dies, or one that others come before. */
export function wrapped(source: DocumentSource, verbs: Partial<DocumentSource>): DocumentSource {
  return {
    address: source.address,
    now: () => source.now(),
    survey: (...args) => source.survey(...args),
    total: (...args) => source.total(...args),
    walk: (...args) => source.walk(...args),
    find: (...args) => source.find(...args),
    change: (...args) => source.change(...args),
    remove: (...args) => source.remove(...args),
    copy: (...args) => source.copy(...args),
    present: (...args) => source.present(...args),
    indexes: (...args) => source.indexes(...args),
    createIndexes: (...args) => source.createIndexes(...args),
    close: () => source.close(),
    ...verbs,
  }
}

/** A bus with a queue for the events of a collection. */
export async function busFor({ name }: Pick<CollectionOptions, 'name'>) {
  const bus = new MemoryBus()
  await bus.declare({ [name]: `${name}.stuck` })
  /** Takes the events, in their order. */
  const taken = async () => {
    const [queue] = await bus.status({ [name]: `${name}.stuck` })
    const deliveries: { id: string; headers: Readonly<Record<string, string>> }[] = []
    const consumer = await bus.consume(name, delivery => {
      deliveries.push({ id: String(JSON.parse(textOf(delivery)).data.id), headers: delivery.headers })
      delivery.ack()
    })
    while (deliveries.length < (queue?.messages ?? 0)) await new Promise(resolve => setImmediate(resolve))
    await consumer.stop()
    return deliveries
  }
  return {
    bus,
    /** The ids of the documents, in the order of their events. Takes the events. */
    inOrder: async () => (await taken()).map(({ id }) => id),
    /** The ids of all documents whose events were published, sorted. Takes the events. */
    sent: async () => (await taken()).map(({ id }) => id).sort(),
    /** The stamps of all events, in their order. Takes the events. */
    headers: async () => (await taken()).map(({ headers }) => headers),
  }
}

/** The numbers from 1 on, as ids that sort as text. */
export function ids(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `d${String(index + 1).padStart(5, '0')}`)
}
