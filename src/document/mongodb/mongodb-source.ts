import type * as mongodb from 'mongodb'
import type { Db, Document, Collection as Documents, Filter, MongoClient } from 'mongodb'
import { type Duration, MissingPackageError, OptionError, parseDuration } from '../../policy/index.js'
import { DURATION, mustBe } from '../../policy/internal.js'
import type { Shape } from '../collection.js'
import type { MongodbDatabase } from '../drivers.js'
import { NoCollectionError } from '../errors.js'
import { changed } from '../record.js'
import type {
  Change,
  Cut,
  DocumentRecord,
  DocumentSource,
  DocumentWalkOptions,
  OnRefused,
  Selection,
  Survey,
} from '../source.js'
import { asRead, formatOf, idText, newFields, toRecord, valueAt } from './fields.js'
import { indexKeys, isFailed, priorityWalk, walksOf } from './walks.js'

/** Options of `openMongodbSource`. @inline */
export interface MongodbSourceOptions {
  /** The name of the database. Default: the one that the URL names. */
  readonly database?: string
  /** How long connecting, and each answer, may take. Default: what the URL says, or else 60 s. */
  readonly timeout?: Duration
}

const TIMEOUTS = ['serverSelectionTimeoutMS', 'connectTimeoutMS', 'socketTimeoutMS'] as const

/** How many updates are under way at once: a bulk write would not tell which documents matched. */
const PARALLEL = 16
const MAJORITY = { writeConcern: { w: 'majority' } } as const

/**
 * Opens the collections of a MongoDB database as a source, by its URL or with a `Db` of your own, whose client closing the
 * source leaves open. Needs the package `mongodb`.
 *
 * ```ts
 * const source = await openMongodbSource('mongodb://localhost/app')
 * ```
 */
export async function openMongodbSource(
  at: string | MongodbDatabase,
  { database, timeout }: MongodbSourceOptions = {},
): Promise<DocumentSource> {
  const timeoutMs = parseDuration(timeout ?? '60s')
  if (timeoutMs === undefined || timeoutMs < 1) throw new OptionError('timeout', mustBe('timeout', DURATION, timeout))
  const driver = await import('mongodb').catch(cause => {
    throw new MissingPackageError('The MongoDB source', 'mongodb', '^7.0', { cause })
  })
  if (typeof at !== 'string') return new MongodbSource(at as Db, driver, async () => {})
  const client = clientOf(at, () => {
    // The driver lets its options override the URL.
    const names = TIMEOUTS.filter(name => timeout !== undefined || !at.toLowerCase().includes(`${name.toLowerCase()}=`))
    const times = Object.fromEntries(names.map(name => [name, timeoutMs]))
    return new driver.MongoClient(at, { ...times, appName: 'redrive' })
  })
  if (database === undefined && client.options.dbName === 'test' && !/\/test(\?|$)/.test(at))
    throw new OptionError('url', `The URL of a MongoDB source must name its database: 'mongodb://localhost/app'.`)
  try {
    await client.connect()
  } catch (error) {
    await client.close()
    throw error
  }
  return new MongodbSource(client.db(database), driver, () => client.close())
}

/** The error of a wrong URL does not repeat it, since it may hold a password. */
function clientOf(url: string, make: () => MongoClient): MongoClient {
  try {
    return make()
  } catch (cause) {
    const [scheme] = url.split(':', 1)
    const problem = `The URL of a MongoDB source cannot be parsed ('${scheme?.slice(0, 20)}:…'): 'mongodb://host/database'.`
    throw Object.assign(new OptionError('url', problem), { cause })
  }
}

/** The classes of ids that are neither text nor numbers. */
type IdTypes = Pick<typeof mongodb, 'ObjectId' | 'UUID' | 'Long'>

/** Documents in the collections of a MongoDB database. */
class MongodbSource implements DocumentSource {
  readonly address: string
  readonly #db: Db
  readonly #types: IdTypes
  readonly #close: () => Promise<void>

  constructor(db: Db, types: IdTypes, close: () => Promise<void>) {
    const { hosts, srvHost } = db.client.options
    this.address = `mongodb://${srvHost ?? hosts.map(String).sort().join(',')}/${db.databaseName}`
    this.#db = db
    this.#types = types
    this.#close = close
  }

  async now(): Promise<number> {
    const { localTime } = await this.#db.command({ hello: 1 })
    return localTime instanceof Date ? localTime.getTime() : Date.now()
  }

  async survey(shape: Shape, cut: Cut): Promise<Survey> {
    await this.#mustExist(shape.name)
    const documents = this.#of(shape)
    const { createdAt, lastAttemptTime } = shape.fields
    const field = createdAt ?? lastAttemptTime
    let stuck = 0
    let oldestAt: number | undefined
    for (const { where } of this.#walks(shape, { type: 'stuck', cut })) {
      stuck += await documents.countDocuments(where)
      const withTime = { $and: [where, { [field]: { $ne: null } }] }
      const [oldest] = await documents
        .find(withTime)
        .sort({ [field]: 1 })
        .limit(1)
        .toArray()
      if (oldest === undefined) continue
      const record = toRecord(shape, oldest)
      const time = createdAt === undefined ? record.lastAttemptAt : record.createdAt
      if (time !== undefined) oldestAt = Math.min(oldestAt ?? time, time)
    }
    return { stuck, failed: await documents.countDocuments(isFailed(shape)), oldestAt }
  }

  total(shape: Shape): Promise<number> {
    return this.#of(shape).estimatedDocumentCount()
  }

  /** Cursors, not pages by key: a comparison of ids sees only ids of one type. */
  async *walk(
    shape: Shape,
    selection: Selection,
    { pageSize, order }: DocumentWalkOptions,
  ): AsyncIterable<DocumentRecord[]> {
    const walks =
      order === 'priority' ? [priorityWalk(shape, this.#walks(shape, selection))] : this.#walks(shape, selection)
    for (const { where, sort } of walks) {
      const cursor = this.#of(shape).find(where, { batchSize: pageSize })
      if (sort !== undefined) cursor.sort(sort)
      try {
        let page: DocumentRecord[] = []
        for await (const document of cursor) {
          const record = toRecord(shape, document)
          if (!isUnderWay(shape, record, selection)) page.push(record)
          if (page.length < pageSize) continue
          yield page
          page = []
        }
        if (page.length > 0) yield page
      } finally {
        await cursor.close()
      }
    }
  }

  async find(shape: Shape, id: string): Promise<DocumentRecord | undefined> {
    const field = shape.fields.id ?? '_id'
    for (const value of this.#idsOf(id)) {
      const document = await this.#of(shape).findOne({ [field]: value })
      if (document !== null) return toRecord(shape, document)
    }
    return undefined
  }

  async change(shape: Shape, changes: readonly Change[], onRefused?: OnRefused): Promise<DocumentRecord[]> {
    const results = await inParallel(changes, async change => {
      try {
        return await this.#changeOne(shape, change)
      } catch (error) {
        if (onRefused === undefined || !isRefusal(error)) throw error
        onRefused(change.document, error)
        return undefined
      }
    })
    return results.filter(document => document !== undefined)
  }

  async #changeOne(shape: Shape, { document, to }: Change): Promise<DocumentRecord | undefined> {
    const fields = newFields(shape, to)
    if (Object.keys(fields).length === 0) return document
    const old = asRead(document)
    const { matchedCount } = await this.#of(shape).updateOne(conditionOf(old), { $set: fields }, MAJORITY)
    return matchedCount === 0 ? undefined : changed(document, to, { ...old, ...comparable(old, fields) })
  }

  async remove(shape: Shape, documents: readonly DocumentRecord[]): Promise<DocumentRecord[]> {
    const removed = await inParallel(documents, async document => {
      const { deletedCount } = await this.#of(shape).deleteOne(conditionOf(asRead(document)), MAJORITY)
      return deletedCount > 0
    })
    return documents.filter((_, index) => removed[index])
  }

  async copy(_: Shape, documents: readonly DocumentRecord[], into: string): Promise<void> {
    await inParallel(documents, async ({ data }) => {
      const { _id, ...rest } = data
      await this.#db.collection<Document>(into).replaceOne(conditionOf({ _id }), rest, { ...MAJORITY, upsert: true })
    })
  }

  async present(collection: string, field: string, documents: readonly DocumentRecord[]): Promise<Set<string>> {
    await this.#mustExist(collection)
    const values = documents.flatMap(({ id }) => this.#idsOf(id))
    const found = this.#db.collection<Document>(collection).find({ [field]: { $in: values } })
    const present = new Set<string>()
    for await (const document of found.project({ [field]: 1 })) {
      for (const value of [valueAt(document, field)].flat()) present.add(idText(value) ?? '')
    }
    return present
  }

  async indexes(shape: Shape): Promise<string[]> {
    return indexKeys(shape).map(keys => `db.getCollection("${shape.name}").createIndex(${JSON.stringify(keys)})`)
  }

  async createIndexes(shape: Shape): Promise<void> {
    for (const keys of indexKeys(shape)) await this.#of(shape).createIndex(keys)
  }

  close(): Promise<void> {
    return this.#close()
  }

  #of(shape: Shape): Documents<Document> {
    return this.#db.collection<Document>(shape.name)
  }

  /** A collection that is not there would look empty: a mistake in its name must not be silent. */
  async #mustExist(name: string): Promise<void> {
    const known = await this.#db.listCollections({ name }, { nameOnly: true }).toArray()
    if (known.length === 0) throw new NoCollectionError(name)
  }

  #walks(shape: Shape, selection: Selection) {
    return walksOf(shape, selection, at => this.#types.ObjectId.createFromTime(Math.floor(at / 1000)))
  }

  /** An id as text may stand for an id of several types: the event carries text, the document may have another. */
  #idsOf(id: string): unknown[] {
    const { ObjectId, UUID, Long } = this.#types
    const values: unknown[] = [id]
    if (/^[0-9a-f]{24}$/i.test(id)) values.push(new ObjectId(id))
    if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) values.push(new UUID(id))
    if (/^-?\d{1,18}$/.test(id)) values.push(Long.fromString(id))
    else if (/^-?\d+\.\d+$/.test(id)) values.push(Number(id))
    return values
  }
}

/** Texts are compared as texts, and `+02:00` is read here: its document may be found before its time. */
function isUnderWay(shape: Shape, { lastAttemptAt, retryAt }: DocumentRecord, selection: Selection): boolean {
  if (formatOf(shape) !== 'iso' || selection.type !== 'stuck') return false
  const { now, stuckBefore } = selection.cut
  return retryAt === undefined ? lastAttemptAt !== undefined && lastAttemptAt >= stuckBefore : retryAt > now
}

/** The codes of a document that breaks the rules of its collection, or of an index. */
const REFUSALS: readonly unknown[] = [121, 11_000, 2, 28]

function isRefusal(error: unknown): boolean {
  return error instanceof Error && 'code' in error && REFUSALS.includes(error.code)
}

function conditionOf(old: Readonly<Record<string, unknown>>): Filter<Document> {
  return old
}

/** The new values of the fields that a later conditional update compares. */
function comparable(old: object, fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => Object.hasOwn(old, name)))
}

/** Maps items in their order, a few at a time. */
async function inParallel<T, R>(items: readonly T[], map: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const work = async () => {
    for (let index = next++; index < items.length; index = next++) {
      const item = items[index]
      if (item !== undefined) results[index] = await map(item)
    }
  }
  await Promise.all(Array.from({ length: Math.min(PARALLEL, items.length) }, work))
  return results
}
