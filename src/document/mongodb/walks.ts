import type { Document, Filter, ObjectId } from 'mongodb'
import type { Shape } from '../collection.js'
import type { Cut, Selection } from '../source.js'
import { writeTime } from '../times.js'
import { formatOf } from './fields.js'

/** One part of a walk, in the order of an index. */
export interface Walk {
  readonly where: Filter<Document>
  readonly sort?: Record<string, 1 | -1>
}

/** The types of values, as MongoDB calls them. A condition on types uses an index; one that excludes a type does not. */
const TYPES = ['number', 'string', 'date', 'object', 'array', 'binData', 'objectId', 'bool', 'regex', 'timestamp']
const TIME_TYPES = { date: 'date', iso: 'string', ms: 'number', s: 'number' } as const

/** The id whose time is a moment, for collections whose creation time is that of their ObjectIds. */
export type IdAt = (at: number) => ObjectId

export function isFailed({ fields, statuses }: Shape): Filter<Document> {
  return { [fields.status]: statuses.failed }
}

/** The parts of a walk by age. A condition on null holds for missing fields too. */
export function walksOf(shape: Shape, selection: Selection, idAt: IdAt): readonly Walk[] {
  const { lastAttemptTime: last } = shape.fields
  const byTime = (name: string) => ({ [name]: 1, _id: 1 }) as const
  switch (selection.type) {
    case 'all':
      return [{ where: {}, sort: { _id: 1 } }]
    case 'failed':
      return [{ where: isFailed(shape), sort: byTime(last) }]
    case 'stuck':
      return stuckWalks(shape, selection.cut, idAt, byTime)
  }
}

function stuckWalks(
  shape: Shape,
  { now, stuckBefore }: Cut,
  idAt: IdAt,
  byTime: (name: string) => Record<string, 1 | -1>,
): readonly Walk[] {
  const { fields, statuses } = shape
  const { lastAttemptTime: last, retryAt, createdAt } = fields
  const format = formatOf(shape)
  const open = { [fields.status]: { $in: [statuses.pending, statuses.processing] } }
  const before = writeTime(format, stuckBefore)
  const free = retryAt === undefined ? {} : { [retryAt]: null }
  const isNoTime = { $type: TYPES.filter(type => type !== TIME_TYPES[format]) }
  const walks: Walk[] = [
    { where: { ...open, [last]: { $lt: before }, ...free }, sort: byTime(last) },
    // A comparison sees values of its own type only. Values of other types are found here, and reported as unreadable.
    { where: { ...open, [last]: isNoTime, ...free } },
  ]
  if (retryAt !== undefined) {
    walks.unshift({ where: { ...open, [retryAt]: { $lte: writeTime(format, now) } }, sort: byTime(retryAt) })
    walks.push({ where: { ...open, [retryAt]: isNoTime } })
  }
  // By their ids alone, new documents could go before old ones for ever.
  const sort = createdAt === undefined ? {} : { sort: byTime(createdAt) }
  walks.push({
    where: { ...open, [last]: null, ...free, ...isOldEnough(createdAt, before, stuckBefore, idAt) },
    ...sort,
  })
  return walks
}

function isOldEnough(createdAt: string | undefined, before: unknown, at: number, idAt: IdAt): Filter<Document> {
  if (createdAt === undefined) return {}
  if (createdAt !== '_id') return { $or: [{ [createdAt]: null }, { [createdAt]: { $lt: before } }] }
  return { $or: [{ _id: { $not: { $type: 'objectId' } } }, { _id: { $lt: idAt(at) } }] }
}

/** A walk over all stuck documents that have a priority, highest first. */
export function priorityWalk({ priority = '' }: Shape, walks: readonly Walk[]): Walk {
  return {
    where: { [priority]: { $ne: null }, $or: walks.map(({ where }) => where) },
    sort: { [priority]: -1, _id: -1 },
  }
}

/**
 * The indexes that the walks use: by status first, so that one serves what is stuck and what has failed. They are not
 * partial: before MongoDB 6.0, a partial index takes no list of statuses. An id of the user's own is looked up by services.
 */
export function indexKeys({ fields, priority }: Shape): readonly Record<string, 1 | -1>[] {
  const names = [fields.lastAttemptTime, fields.retryAt, priority].filter(name => name !== undefined)
  const walks: Record<string, 1 | -1>[] = names.map(name => ({ [fields.status]: 1, [name]: 1, _id: 1 }))
  const { createdAt = '_id', lastAttemptTime, status } = fields
  if (createdAt !== '_id') walks.push({ [status]: 1, [lastAttemptTime]: 1, [createdAt]: 1, _id: 1 })
  return fields.id === undefined || fields.id === '_id' ? walks : [...walks, { [fields.id]: 1 }]
}
