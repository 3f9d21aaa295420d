import { namesOf } from '../policy/internal.js'
import { label, redact } from './redact.js'
import { withoutSecrets } from './secrets.js'

/** A description of a failure that is safe to store: bounded, on one line, without secrets. */
export interface FailureDescription {
  /** The name of the error, or the type of what was thrown. */
  readonly name: string
  /** Its message, with that of its innermost cause unless it repeats it, bounded and redacted. */
  readonly message: string
}

/** Describes anything that can be thrown. Never throws itself. */
export function describeFailure(failure: unknown): FailureDescription {
  try {
    if (typeof failure === 'object' && failure !== null) return describeObject(failure)
    return { name: typeof failure, message: redact(String(failure)) }
  } catch {
    return { name: 'unknown', message: 'a failure that cannot be described' }
  }
}

/** Returns a failure as `Name: message`, on one line. */
export function failureText(failure: unknown): string {
  return describedText(describeFailure(failure))
}

/** The failure of a step of a task, as `Name: step 'charge': message`: so it begins with its name, as every recorded failure. */
export function stepFailureText(step: string, failure: unknown): string {
  return describedText(describeFailure(failure), step)
}

/** The text of a failure that has been described. */
export function describedText({ name, message }: FailureDescription, step?: string): string {
  const parts = step === undefined ? [name, message] : [name, `step '${step}'`, message]
  return parts.filter(Boolean).join(': ')
}

function describeObject(failure: object): FailureDescription {
  const isError = failure instanceof Error
  const name = (isError ? namesOf(failure)[0] : read(failure, 'name')) ?? (isError ? 'Error' : 'object')
  const message = read(failure, 'message') ?? ''
  // Some errors have only a code, such as Node's error when every address of a host refuses.
  const said = isError && message !== '' ? [message] : [message, read(failure, 'code'), statusOf(failure)]
  const text = said.filter(Boolean).join(' ')
  const cause = causeText(failure)
  const isNew = cause !== '' && !text.includes(cause)
  return {
    name: label(withoutSecrets(name.slice(0, 1000)), 100),
    message: redact(isNew ? [text, cause].filter(Boolean).join(': ') : text),
  }
}

/** No more of a chain of causes is followed: it may be a circle. */
const MAX_CAUSES = 10

/** The message of the innermost cause that has one, or its code: `fetch failed` alone says nothing of the connection. */
function causeText(failure: object): string {
  let text = ''
  let cause = causeOf(failure)
  for (let depth = 0; cause !== undefined && depth < MAX_CAUSES; depth++) {
    text = read(cause, 'message') || read(cause, 'code') || text
    cause = causeOf(cause)
  }
  return text
}

function causeOf(failure: object): object | undefined {
  try {
    const cause: unknown = Reflect.get(failure, 'cause')
    return typeof cause === 'object' && cause !== null ? cause : undefined
  } catch {
    return undefined
  }
}

function statusOf(failure: object): string | undefined {
  return read(failure, 'status') ?? read(failure, 'statusCode')
}

/** Reads a property as text, if it is a string or a number. */
function read(failure: object, property: string): string | undefined {
  try {
    const value: unknown = Reflect.get(failure, property)
    if (typeof value === 'string') return value
    return typeof value === 'number' ? String(value) : undefined
  } catch {
    return undefined
  }
}
