import type { FieldNames, Shape } from './collection.js'
import type { Change, DocumentRecord, NewValues } from './source.js'
import { MAX_TIME } from './times.js'

/** The tracking fields as a database holds them. */
export type RawFields = Readonly<Record<keyof FieldNames, unknown>>

/** Reads a time; `undefined` if it is none. */
export type ReadTime = (value: unknown) => number | undefined

/** Collects the tracking fields of a document; `read` gives the value of a field by the name that the collection has for it. */
export function rawFieldsOf({ fields }: Shape, id: unknown, read: (field: string) => unknown): RawFields {
  const value = (field: string | undefined) => (field === undefined ? undefined : read(field))
  return {
    id,
    status: value(fields.status),
    attemptCount: value(fields.attemptCount),
    lastAttemptTime: value(fields.lastAttemptTime),
    generation: value(fields.generation),
    retryAt: value(fields.retryAt),
    dispatches: value(fields.dispatches),
    createdAt: value(fields.createdAt),
    lastError: value(fields.lastError),
  }
}

/** Makes a record of a document. Values that cannot be read are reported, not guessed. */
export function recordOf(
  { fields }: Pick<Shape, 'fields'>,
  raw: RawFields,
  data: Readonly<Record<string, unknown>>,
  readTime: ReadTime,
  asRead: unknown,
): DocumentRecord {
  const problems: string[] = []
  const unreadable: (keyof FieldNames)[] = []
  const report = (name: keyof FieldNames, problem: string) => {
    unreadable.push(name)
    problems.push(`'${fields[name] ?? name}' is ${problem}`)
  }
  const time = (name: 'lastAttemptTime' | 'retryAt' | 'createdAt') => {
    const value = raw[name] ?? undefined
    if (value === undefined) return undefined
    const at = readTime(value)
    if (at !== undefined && Math.abs(at) <= MAX_TIME) return at
    report(name, 'not a time')
    return undefined
  }
  const count = (name: 'attemptCount' | 'generation' | 'dispatches') => {
    const text = String(raw[name] ?? 0)
    if (/^\d{1,15}$/.test(text)) return Number(text)
    report(name, 'not a whole number, 0 or more')
    return 0
  }
  const id = idTextOf(raw.id)
  if (id === undefined) report('id', 'missing, or of a type that has no text')
  return {
    id: id ?? '',
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
    unreadable,
    asRead,
  }
}

/** Events and commands name a document by a text. */
function idTextOf(id: unknown): string | undefined {
  return typeof id === 'string' || typeof id === 'number' || typeof id === 'bigint' ? String(id) : undefined
}

/** The fields to write, by the names that the collection has for them. */
export function fieldValues<T>(
  { fields }: Shape,
  to: NewValues,
  writeTime: (ms: number) => T,
): Record<string, T | string | number | null> {
  const time = (ms: number | null | undefined) => (typeof ms === 'number' ? writeTime(ms) : ms)
  const values = [
    [fields.status, to.status],
    [fields.attemptCount, to.attemptCount],
    [fields.lastAttemptTime, time(to.lastAttemptAt)],
    [fields.generation, to.generation],
    [fields.retryAt, time(to.retryAt)],
    [fields.dispatches, to.dispatches],
    [fields.lastError, to.lastError],
  ] as const
  const written: Record<string, T | string | number | null> = {}
  for (const [name, value] of values) if (name !== undefined && value !== undefined) written[name] = value
  return written
}

/** The fields that a conditional update compares. */
export function comparedFields({ fields }: Shape): string[] {
  const { status, attemptCount, lastAttemptTime, generation, retryAt } = fields
  return [status, attemptCount, lastAttemptTime, generation, retryAt].filter(name => name !== undefined)
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
