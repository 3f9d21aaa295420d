/** A failure in words that can be stored: bounded, on one line, secrets left out. */
export interface FailureDescription {
  readonly name: string
  readonly message: string
}

const MAX_MESSAGE = 1000

/** Describes anything that can be thrown. Never throws itself. */
export function describeFailure(failure: unknown): FailureDescription {
  try {
    if (failure instanceof Error)
      return { name: short(String(failure.name), 100), message: redact(String(failure.message)) }
    if (typeof failure !== 'object' || failure === null)
      return { name: typeof failure, message: redact(String(failure)) }
    const { name, message, status, statusCode, code } = failure as Record<string, unknown>
    const said = [message, code, status ?? statusCode].filter(
      part => typeof part === 'string' || typeof part === 'number',
    )
    return { name: typeof name === 'string' ? short(name, 100) : 'object', message: redact(said.join(' ')) }
  } catch {
    return { name: 'unknown', message: 'a failure that cannot be described' }
  }
}

/** `Name: message`, on one line. */
export function failureText(failure: unknown): string {
  const { name, message } = describeFailure(failure)
  return message === '' ? name : `${name}: ${message}`
}

const SECRETS: readonly [RegExp, string][] = [
  [/\b([a-z][a-z0-9+.-]*:\/\/[^\s:/@]*):[^\s@/]+@/gi, '$1:[redacted]@'],
  [/\b(bearer|basic)\s+[\w.~+/=-]{8,}/gi, '$1 [redacted]'],
  [
    /((?:password|passwd|pwd|secret|token|api[-_]?key|authorization|credential)s?["']?\s*[=:]\s*["']?)(?!bearer|basic)[^\s"'&,;]+/gi,
    '$1[redacted]',
  ],
]

/** Text with what looks like a password, a token or a key replaced, cut to a length that a record can bear. */
export function redact(text: string): string {
  const bounded = short(text, MAX_MESSAGE)
  return SECRETS.reduce((result, [pattern, replacement]) => result.replace(pattern, replacement), bounded)
}

function short(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max)}… (${text.length} characters)`
}
