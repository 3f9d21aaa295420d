import type { Shape } from './collection.js'
import type { Change, DocumentRecord } from './source.js'

/** The tracking fields as a database holds them. */
export interface RawFields {
  readonly id: unknown
  readonly status: unknown
  readonly attemptCount: unknown
  readonly lastAttemptTime: unknown
  readonly generation: unknown
  readonly retryAt: unknown
  readonly dispatches: unknown
  readonly createdAt: unknown
  readonly lastError: unknown
}

/** Reads a time; `undefined` if it is none. */
export type ReadTime = (value: unknown) => number | undefined

/** Makes a record of a document. Values that cannot be read are reported, not guessed. */
export function recordOf(
  { fields }: Pick<Shape, 'fields'>,
  raw: RawFields,
  data: Readonly<Record<string, unknown>>,
  readTime: ReadTime,
  asRead: unknown = raw,
): DocumentRecord {
  const problems: string[] = []
  const time = (name: 'lastAttemptTime' | 'retryAt' | 'createdAt') => {
    const value = raw[name] ?? undefined
    if (value === undefined) return undefined
    const at = readTime(value)
    if (at === undefined || !Number.isFinite(at)) problems.push(`'${fields[name]}' is not a time`)
    return Number.isFinite(at) ? at : undefined
  }
  const count = (name: 'attemptCount' | 'generation' | 'dispatches') => {
    const number = Number(raw[name] ?? 0)
    if (!Number.isInteger(number) || number < 0) problems.push(`'${fields[name]}' is not a whole number, 0 or more`)
    return Number.isInteger(number) ? Math.max(number, 0) : 0
  }
  return {
    id: String(raw.id),
    status: String(raw.status ?? ''),
    attemptCount: count('attemptCount'),
    lastAttemptAt: time('lastAttemptTime'),
    createdAt: time('createdAt'),
    generation: count('generation'),
    retryAt: time('retryAt'),
    dispatches: count('dispatches'),
    lastError: raw.lastError === null || raw.lastError === undefined ? undefined : String(raw.lastError),
    data,
    problem: problems.length === 0 ? undefined : problems.join(', '),
    asRead,
  }
}

/** A document after a change. */
export function changed(document: DocumentRecord, to: Change['to'], asRead: unknown): DocumentRecord {
  const { lastAttemptAt, retryAt, lastError, ...rest } = to
  return {
    ...document,
    ...rest,
    ...(lastAttemptAt !== undefined && { lastAttemptAt: lastAttemptAt ?? undefined }),
    ...(retryAt !== undefined && { retryAt: retryAt ?? undefined }),
    ...(lastError !== undefined && { lastError: lastError ?? undefined }),
    asRead,
  }
}
