import { classNameOf } from './class-name.js'
import { isStatus } from './http-status.js'
import { isObject } from './is-object.js'
import { type Knowledge, knowledgeOf } from './known-errors.js'
import { retryAfter } from './retry-after.js'

/** The facts about one error, whatever its shape. */
export interface Facts {
  /** Its own name, then its classes, nearest first. */
  readonly names: readonly string[]
  /** Its code as it was given. */
  readonly code?: string
  /** Its HTTP status. */
  readonly status?: number
  /** How long the other side asks to wait, in milliseconds. */
  readonly retryAfterMs?: number
  /** Redrive's own knowledge of such an error. */
  readonly knowledge?: Knowledge
}

/** Where the facts are found in what people throw. Any of it may be missing, or anything else. */
export interface Thrown {
  readonly name?: unknown
  readonly code?: unknown
  readonly status?: unknown
  readonly statusCode?: unknown
  readonly headers?: unknown
  readonly retryAfter?: unknown
  readonly retryAfterMs?: unknown
  readonly response?: { readonly status?: unknown; readonly statusCode?: unknown; readonly headers?: unknown } | null
  /** As the AWS SDK has it. */
  readonly $metadata?: { readonly httpStatusCode?: unknown } | null
  readonly cause?: unknown
  readonly errors?: unknown
}

/** No more of a chain of causes or of classes is looked at, however long it is; and a longer text is no name or code. */
export const ENOUGH = 100

/** The facts of a failure and of all that caused it, outermost first. Never throws, whatever was thrown. */
export function factsOf(failure: unknown, now: number): Facts[] {
  const errors = [failure]
  // The list grows while it is gone through.
  for (const error of errors) {
    for (const cause of orElse(() => causesOf(error), [])) {
      if (errors.length < ENOUGH && !errors.includes(cause)) errors.push(cause)
    }
  }
  return errors.map(error => orElse(() => read(fieldsOf(error), now), { names: [] }))
}

/** A getter or a proxy may throw: what it hides is unknown, like any other unknown error. */
function orElse<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch {
    return otherwise
  }
}

/** Of what was thrown without being an object, a number is a status and a text is a code. */
function fieldsOf(error: unknown): Thrown {
  return isObject(error) ? error : { status: error, code: error }
}

function causesOf(error: unknown): unknown[] {
  const { cause, errors } = fieldsOf(error)
  const several = Array.isArray(errors) ? errors.slice(0, ENOUGH) : []
  return [cause, ...several].filter(error => error !== undefined && error !== null)
}

function read(error: Thrown, now: number): Facts {
  const { response, $metadata } = error
  const code = isWord(error.code) ? error.code : undefined
  const status = [
    error.status,
    error.statusCode,
    response?.status,
    response?.statusCode,
    $metadata?.httpStatusCode,
    error.code,
  ].find(isStatus)
  const names = namesOf(error)
  const retryAfterMs = orElse(() => retryAfter(error, status, now), undefined)
  return { names, code, status, retryAfterMs, knowledge: knowledgeOf(names, code, status, retryAfterMs) }
}

/** The names of an error, nearest first: its own, unless it inherits that, then those of its classes. */
export function namesOf(error: Thrown): string[] {
  const names: unknown[] = []
  let prototype: object | null = Object.getPrototypeOf(error)
  while (prototype && prototype !== Object.prototype && names.length < ENOUGH) {
    names.push(classNameOf(prototype))
    prototype = Object.getPrototypeOf(prototype)
  }
  // A name that it inherits says nothing of its own.
  if (!names.includes(error.name)) names.unshift(error.name)
  return names.filter(isWord)
}

function isWord(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= ENOUGH
}
