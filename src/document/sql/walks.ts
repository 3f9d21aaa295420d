import type { Shape } from '../collection.js'
import type { Selection } from '../source.js'
import { column, literal } from './names.js'

/** How a database writes what differs. */
export interface Dialect {
  /** The default name of the id column. */
  readonly id: string
  /** A time column, as an expression that sorts by time and that an index can hold. */
  time(name: string): string
  /** A parameter of milliseconds, as a value that compares with `time`. */
  moment(parameter: string): string
  /** A parameter that holds a key as it was read, for a comparison with that column or time. */
  key(parameter: string, name: string): string
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
  const byTime = (name: string): Pick<Walk, 'order' | 'after'> => ({
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
    case 'stuck': {
      const open = isOpen(shape)
      const before = dialect.moment('stuckBefore')
      const created = fields.createdAt === undefined ? undefined : dialect.time(fields.createdAt)
      const isOldEnough = created === undefined ? '' : ` AND (${created} IS NULL OR ${created} < ${before})`
      const free = fields.retryAt === undefined ? '' : ` AND ${dialect.time(fields.retryAt)} IS NULL`
      const scheduled =
        fields.retryAt === undefined
          ? []
          : [
              {
                where: `${open} AND ${dialect.time(fields.retryAt)} <= ${dialect.moment('now')}`,
                ...byTime(fields.retryAt),
              },
            ]
      return [
        ...scheduled,
        { where: `${open} AND ${last} IS NULL${free}${isOldEnough}`, ...never },
        { where: `${open} AND ${last} < ${before}${free}`, ...byTime(fields.lastAttemptTime) },
      ]
    }
  }
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
  if (fields.retryAt !== undefined) parts.push(['retry', `${dialect.time(fields.retryAt)}, ${id}`, open])
  if (priority !== undefined) parts.push(['priority', `${column(priority)}, ${id}`, open])
  return parts.map(([suffix, columns, where]) => [suffix, withoutAlias(columns), withoutAlias(where)] as const)
}

function withoutAlias(expression: string): string {
  return expression.replaceAll('a."', '"')
}
