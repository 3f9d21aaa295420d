import { retryAfter } from './retry-after.js'

/** What can be told of one error, whatever its shape. */
export interface Facts {
  /** Its own name, then its classes, nearest first. */
  readonly names: readonly string[]
  /** Its code as it was given. */
  readonly code?: string
  /** Its HTTP status. */
  readonly status?: number
  /** How long the other side asks to wait, in milliseconds. */
  readonly retryAfterMs?: number
}

/** However deep a chain of causes goes, no more of its errors are looked at. */
const MAX_ERRORS = 100
/** A longer text is a message, not a name or a code. */
const MAX_WORD = 100
const NOTHING: Facts = { names: [] }

/** The facts of a failure and of all that caused it, outermost first. Never throws, whatever was thrown. */
export function factsOf(failure: unknown, now: number): Facts[] {
  const errors: unknown[] = [failure]
  const facts: Facts[] = []
  for (let i = 0; i < errors.length && i < MAX_ERRORS; i++) {
    try {
      const error = errors[i]
      facts.push(read(error, now))
      for (const cause of causesOf(error)) if (!errors.includes(cause)) errors.push(cause)
    } catch {
      // A getter or a proxy threw: what it hides is unknown, like any other unknown error.
      facts.push(NOTHING)
    }
  }
  return facts
}

function causesOf(error: unknown): unknown[] {
  if (!isObject(error)) return []
  const causes = Array.isArray(error.errors) ? error.errors.slice(0, MAX_ERRORS) : []
  return error.cause === undefined || error.cause === null ? causes : [error.cause, ...causes]
}

function read(error: unknown, now: number): Facts {
  if (typeof error === 'number') return { names: [], status: isStatus(error) ? error : undefined }
  if (typeof error === 'string') return { names: [], code: asWord(error) }
  if (!isObject(error)) return NOTHING
  const response = isObject(error.response) ? error.response : undefined
  const metadata = isObject(error.$metadata) ? error.$metadata : undefined
  return {
    names: namesOf(error),
    code: asWord(error.code),
    status: [error.status, error.statusCode, response?.status, metadata?.httpStatusCode, error.code].find(isStatus),
    retryAfterMs: retryAfter(error, response, now),
  }
}

function namesOf(error: object): string[] {
  const names: string[] = []
  let holder: object | null = error
  for (let depth = 0; holder !== null && holder !== Object.prototype && depth < MAX_ERRORS; depth++) {
    // A class may carry its name on its prototype, as the built-in errors do; that one survives a minifier.
    const name = Object.hasOwn(holder, 'name')
      ? asWord(Reflect.get(holder, 'name', error))
      : holder === error
        ? undefined
        : asWord(holder.constructor?.name)
    if (name !== undefined && !names.includes(name)) names.push(name)
    holder = Object.getPrototypeOf(holder)
  }
  return names
}

function asWord(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MAX_WORD ? value : undefined
}

function isStatus(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 100 && value <= 599
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
