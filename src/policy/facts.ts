import { type Knowledge, knowledgeOf } from './known-errors.js'
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
  /** What Redrive knows of such an error. */
  readonly knowledge?: Knowledge
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
  const errors = Array.isArray(error.errors) ? error.errors.slice(0, MAX_ERRORS) : []
  return [error.cause, ...errors].filter(cause => cause !== undefined && cause !== null)
}

function read(error: unknown, now: number): Facts {
  const facts = isObject(error) ? ofObject(error, now) : ofValue(error)
  return { ...facts, knowledge: knowledgeOf(facts) }
}

/** Of what was thrown without being an object, a number is a status and a text is a code. */
function ofValue(value: unknown): Facts {
  return { names: [], code: asWord(value), status: isStatus(value) ? value : undefined }
}

function ofObject(error: Record<string, unknown>, now: number): Facts {
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
    const isOwn = Object.hasOwn(holder, 'name')
    const name = asWord(isOwn ? Reflect.get(holder, 'name', error) : holder !== error && holder.constructor?.name)
    if (name !== undefined && !names.includes(name)) names.push(name)
    holder = Object.getPrototypeOf(holder)
  }
  return names
}

function asWord(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MAX_WORD ? value : undefined
}

function isStatus(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 100 && (value as number) < 600
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
