import type { Shape } from '../collection.js'
import type { Selection } from '../source.js'
import { column, literal } from './names.js'

/** How a database writes what differs. */
export interface Dialect {
  /** The default name of the id column. */
  readonly id: string
  /** A time column, as an expression that sorts by time and that an index can hold. */
  time(name: string): string
  /** A parameter of milliseconds, as a value that compares with the `time` of that column. */
  moment(parameter: string, name: string): string
  /** A parameter that holds a key as it was read, for a comparison with that column or time. */
  key(parameter: string, name: string): string
  /** Whether a column holds a value that is no time, and that a comparison with times would not find. */
  isNoTime?(name: string): string
}

/** One part of a walk: the documents that match, in the order of an index. Values are written as `@name`. */
export interface Walk {
  readonly where: string
  /** The expressions that order it. */
  readonly order: readonly string[]
  readonly isDescending?: boolean
  /** Where the next page begins, by the last document of the page before: `@sort` and `@id`. */
  readonly after: string
}

/** The statuses of open documents, always in the same order: an index is found by the same text. */
export function isOpen({ fields, statuses }: Shape): string {
  return `${column(fields.status)} IN (${literal(statuses.pending)}, ${literal(statuses.processing)})`
}

function isUnattempted(shape: Shape, dialect: Dialect): string {
  return `${isOpen(shape)} AND ${dialect.time(shape.fields.lastAttemptTime)} IS NULL`
}

export function isFailed({ fields, statuses }: Shape): string {
  return `${column(fields.status)} = ${literal(statuses.failed)}`
}

/** The parts of a walk by age: an OR over them would not use the indexes. */
export function walksOf(shape: Shape, selection: Selection, dialect: Dialect): readonly Walk[] {
  const { fields } = shape
  const last = dialect.time(fields.lastAttemptTime)
  const id = column(fields.id ?? dialect.id)
  const idKey = dialect.key('id', fields.id ?? dialect.id)
  const never = { order: [last, id], after: `${id} > ${idKey}` }
  const byTime = (name: string): Part => ({
    order: [dialect.time(name), id],
    after: `(${dialect.time(name)}, ${id}) > (${dialect.key('sort', name)}, ${idKey})`,
  })
  switch (selection.type) {
    case 'all':
      return [{ where: 'TRUE', order: [id], after: never.after }]
    case 'failed':
      return [
        { where: `${isFailed(shape)} AND ${last} IS NULL`, ...never },
        { where: `${isFailed(shape)} AND ${last} IS NOT NULL`, ...byTime(fields.lastAttemptTime) },
      ]
    case 'stuck':
      return stuckWalks(shape, dialect, never, byTime)
  }
}

type Part = Pick<Walk, 'order' | 'after'>

function stuckWalks(shape: Shape, dialect: Dialect, never: Part, byTime: (name: string) => Part): readonly Walk[] {
  const { lastAttemptTime: last, retryAt, createdAt } = shape.fields
  const open = isOpen(shape)
  const isOld = (name: string) => `${dialect.time(name)} < ${dialect.moment('stuckBefore', name)}`
  const free = retryAt === undefined ? '' : ` AND ${dialect.time(retryAt)} IS NULL`
  const walks: Walk[] = [{ where: `${open} AND ${isOld(last)}${free}`, ...byTime(last) }]
  if (retryAt !== undefined) {
    const isDue = `${dialect.time(retryAt)} <= ${dialect.moment('now', retryAt)}`
    walks.unshift({ where: `${open} AND ${isDue}`, ...byTime(retryAt) })
  }
  // Values that are no times are found here, and reported.
  if (dialect.isNoTime !== undefined) {
    walks.push({ where: `${open} AND ${dialect.isNoTime(last)}${free}`, ...byTime(last) })
    if (retryAt !== undefined) walks.push({ where: `${open} AND ${dialect.isNoTime(retryAt)}`, ...byTime(retryAt) })
  }
  const unattempted = `${isUnattempted(shape, dialect)}${free}`
  if (createdAt === undefined) return [...walks, { where: unattempted, ...never }]
  // By their ids alone, new documents could go before old ones for ever. Those of unknown age are few, and go first.
  const created = dialect.time(createdAt)
  const { order } = byTime(createdAt)
  walks.push({ where: `${unattempted} AND ${created} IS NULL`, order, after: never.after })
  walks.push({ where: `${unattempted} AND ${isOld(createdAt)}`, ...byTime(createdAt) })
  return walks
}

/** A walk over all stuck documents that have a priority, highest first. */
export function priorityWalk(shape: Shape, selection: Selection, dialect: Dialect): Walk {
  const { fields, priority = '' } = shape
  const id = column(fields.id ?? dialect.id)
  const field = column(priority)
  const parts = walksOf(shape, selection, dialect).map(({ where }) => `(${where})`)
  return {
    where: `${isOpen(shape)} AND ${field} IS NOT NULL AND (${parts.join(' OR ')})`,
    order: [field, id],
    isDescending: true,
    after: `(${field}, ${id}) < (${dialect.key('sort', priority)}, ${dialect.key('id', fields.id ?? dialect.id)})`,
  }
}

/** A page of a walk. */
export function pageQuery(select: string, table: string, walk: Walk, isFirst: boolean): string {
  const { where, order, isDescending, after } = walk
  const direction = isDescending ? ' DESC' : ''
  return `
    SELECT ${select}
      FROM ${table} a
     WHERE ${where}${isFirst ? '' : ` AND ${after}`}
     ORDER BY ${order.map(expression => expression + direction).join(', ')}
     LIMIT @limit`
}

/** The definitions of the indexes that the walks use: a suffix for the name, the columns, and the condition. */
export function indexParts(shape: Shape, dialect: Dialect): readonly (readonly [string, string, string])[] {
  const { fields, priority } = shape
  const id = column(fields.id ?? dialect.id)
  const open = isOpen(shape)
  const parts: [string, string, string][] = [
    ['open', `${dialect.time(fields.lastAttemptTime)}, ${id}`, open],
    ['failed', `${dialect.time(fields.lastAttemptTime)}, ${id}`, isFailed(shape)],
  ]
  if (fields.createdAt !== undefined)
    parts.push(['new', `${dialect.time(fields.createdAt)}, ${id}`, isUnattempted(shape, dialect)])
  if (fields.retryAt !== undefined) parts.push(['retry', `${dialect.time(fields.retryAt)}, ${id}`, open])
  if (priority !== undefined) parts.push(['priority', `${column(priority)}, ${id}`, open])
  return parts.map(([suffix, columns, where]) => [suffix, withoutAlias(columns), withoutAlias(where)] as const)
}

function withoutAlias(expression: string): string {
  return expression.replaceAll('a."', '"')
}
