import { classNameOf } from './class-name.js'
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
  const errors = [failure]
  const facts: Facts[] = []
  // The list grows while it is gone through.
  for (const error of errors) {
    facts.push(orElse(() => read(error, now), NOTHING))
    for (const cause of orElse(() => causesOf(error), [])) {
      if (errors.length < MAX_ERRORS && !errors.includes(cause)) errors.push(cause)
    }
  }
  return facts
}

/** A getter or a proxy may throw: what it hides is unknown, like any other unknown error. */
function orElse<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch {
    return otherwise
  }
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
  return { names: [], code: isWord(value) ? value : undefined, status: isStatus(value) ? value : undefined }
}

function ofObject(error: Record<string, unknown>, now: number): Facts {
  const { code, $metadata } = error
  const response = isObject(error.response) ? error.response : {}
  const metadata = isObject($metadata) ? $metadata : {}
  const statuses = [error.status, error.statusCode, response.status, response.statusCode, metadata.httpStatusCode, code]
  const status = statuses.find(isStatus)
  return {
    names: namesOf(error),
    code: isWord(code) ? code : undefined,
    status,
    retryAfterMs: orElse(() => retryAfter(error, response, status, now), undefined),
  }
}

function namesOf(error: Record<string, unknown>): string[] {
  const names: unknown[] = []
  let prototype: object | null = Object.getPrototypeOf(error)
  for (let depth = 0; prototype && prototype !== Object.prototype && depth < MAX_ERRORS; depth++) {
    names.push(classNameOf(prototype))
    prototype = Object.getPrototypeOf(prototype)
  }
  // A name that it inherits says nothing of its own.
  if (!names.includes(error.name)) names.unshift(error.name)
  return names.filter(isWord)
}

function isWord(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_WORD
}

function isStatus(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 100 && (value as number) < 600
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
