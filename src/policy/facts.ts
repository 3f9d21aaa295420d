import { classNameOf } from './class-name.js'
import { httpStatus } from './http-status.js'
import { isObject } from './is-object.js'
import { type Knowledge, knowledgeOf, type NameKnowledge, nameKnowledge } from './known-errors.js'
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

/**
 * The facts of a failure and of all that caused it, outermost first. Never throws, whatever was thrown. Few objects are made
 * here and below: with many calls in flight, collecting them takes longer than comparing.
 */
export function factsOf(failure: unknown, now: number): Facts[] {
  const errors = [failure]
  const chain = [read(failure, errors, now)]
  // The list grows while it is gone through.
  for (let i = 1; i < errors.length; i++) chain.push(read(errors[i], errors, now))
  return chain
}

/** The facts of one error; its causes are added to the list. A getter or a proxy may throw: what it hides is unknown. */
function read(failure: unknown, errors: unknown[], now: number): Facts {
  try {
    // Of what was thrown without being an object, a number is a status and a text is a code.
    const error: Thrown = isObject(failure) ? failure : { status: failure, code: failure }
    try {
      addCause(errors, error.cause)
      const several = error.errors
      if (Array.isArray(several)) for (const cause of several.slice(0, ENOUGH)) addCause(errors, cause)
    } catch {}

    const { response, $metadata } = error
    const code = word(error.code)
    const status =
      httpStatus(error.status) ??
      httpStatus(error.statusCode) ??
      httpStatus(response?.status) ??
      httpStatus(response?.statusCode) ??
      httpStatus($metadata?.httpStatusCode) ??
      httpStatus(error.code)
    const named = namedAs(error)
    let retryAfterMs: number | undefined
    try {
      retryAfterMs = retryAfter(error, status, now)
    } catch {}
    return { names: named.names, code, status, retryAfterMs, knowledge: knowledgeOf(named, code, status, retryAfterMs) }
  } catch {
    return { names: [] }
  }
}

function addCause(errors: unknown[], cause: unknown): void {
  if (cause !== undefined && cause !== null && errors.length < ENOUGH && !errors.includes(cause)) errors.push(cause)
}

/** The names of an error, nearest first: its own, unless it inherits that, then those of its classes. */
export function namesOf(error: Thrown): readonly string[] {
  return namedAs(error).names
}

/** By prototype, since a class keeps its names: to compare them anew for each error takes as long as all the rest. */
const classes = /* @__PURE__ */ new WeakMap<object, NameKnowledge>()

function namedAs(error: Thrown): NameKnowledge {
  const prototype: object = Object.getPrototypeOf(error) ?? Object.prototype
  let known = classes.get(prototype)
  if (!known) {
    known = nameKnowledge(classNames(prototype))
    classes.set(prototype, known)
  }
  const name = word(error.name)
  return name && !known.names.includes(name) ? nameKnowledge([name, ...known.names]) : known
}

/** The names of a class and of its ancestors, nearest first. */
function classNames(nearest: object): readonly string[] {
  const names: string[] = []
  let prototype: object | null = nearest
  for (let i = 0; i < ENOUGH && prototype && prototype !== Object.prototype; i++) {
    const name = word(classNameOf(prototype))
    if (name) names.push(name)
    prototype = Object.getPrototypeOf(prototype)
  }
  return names
}

function word(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= ENOUGH ? value : undefined
}
