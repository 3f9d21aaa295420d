import { classNameOf } from './class-name.js'
import { type Knowledge, knowledgeOf } from './known-errors.js'
import { retryAfter } from './retry-after.js'

/** What can be told of one error, whatever its shape. */
export interface Facts {
  /** Its own name, then its classes, nearest first. */
  readonly names: readonly string[]
  /** Its code as it was given. */
  readonly code: string | undefined
  /** Its HTTP status. */
  readonly status: number | undefined
  /** How long the other side asks to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined
  /** What Redrive knows of such an error. */
  readonly knowledge: Knowledge | undefined
}

/** However deep a chain of causes goes, no more of its errors are looked at. */
const MAX_ERRORS = 100
/** A longer text is a message, not a name or a code. */
const MAX_WORD = 100
const NOTHING: Facts = { names: [], code: undefined, status: undefined, retryAfterMs: undefined, knowledge: undefined }
const NO_FIELDS: Readonly<Record<string, unknown>> = {}

/** The facts of a failure and of all that caused it, outermost first. Never throws, whatever was thrown. */
export function factsOf(failure: unknown, now: number): Facts[] {
  const errors = [failure]
  const chain: Facts[] = []
  // The list grows while it is gone through.
  for (const error of errors) {
    chain.push(orElse(() => read(error, now), NOTHING))
    for (const cause of orElse(() => causesOf(error), [])) {
      if (errors.length < MAX_ERRORS && !errors.includes(cause)) errors.push(cause)
    }
  }
  return chain
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

/** Of what was thrown without being an object, a number is a status and a text is a code. */
function read(error: unknown, now: number): Facts {
  if (!isObject(error)) return facts([], error, ofStatus(error), undefined)
  const response = isObject(error.response) ? error.response : NO_FIELDS
  const status =
    ofStatus(error.status) ??
    ofStatus(error.statusCode) ??
    ofStatus(response.status) ??
    ofStatus(response.statusCode) ??
    ofStatus(isObject(error.$metadata) ? error.$metadata.httpStatusCode : error.code)
  const retryAfterMs = orElse(() => retryAfter(error, response, status, now), undefined)
  return facts(namesOf(error), error.code, status, retryAfterMs)
}

function facts(
  names: readonly string[],
  code: unknown,
  status: number | undefined,
  retryAfterMs: number | undefined,
): Facts {
  const word = isWord(code) ? code : undefined
  return { names, code: word, status, retryAfterMs, knowledge: knowledgeOf(names, word, status, retryAfterMs) }
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

function ofStatus(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 100 && value < 600 ? value : undefined
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
