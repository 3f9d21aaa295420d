import { failureText } from './describe-failure.js'
import { isSecretKey, label, redact } from './redact.js'

/** What JSON can hold. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

const MAX_DEPTH = 6
/** Of one list or object. */
const MAX_ENTRIES = 100
/** Of the whole, roughly. */
const MAX_CHARACTERS = 16_000
/** What each value counts for besides its text, so that many small ones are bounded too. */
const VALUE_CHARACTERS = 8

/**
 * What a caller wants to see beside its work, in a form that can be stored: values under keys that look secret are
 * replaced, texts redacted, and depth and size bounded. Never throws, and never changes what it was given.
 *
 * ```ts
 * redactContext({ order: 7, apiKey: 'k-123' }) // { order: 7, apiKey: '[redacted]' }
 * ```
 */
export function redactContext(value: unknown): Json {
  return new Redaction().copy(value, [])
}

class Redaction {
  #left = MAX_CHARACTERS

  copy(value: unknown, parents: readonly object[]): Json {
    this.#left -= VALUE_CHARACTERS
    try {
      return typeof value === 'object' && value !== null ? this.#object(value, parents) : this.#scalar(value)
    } catch {
      return '[unreadable]'
    }
  }

  #scalar(value: unknown): Json {
    if (value === null || value === undefined || typeof value === 'boolean') return value ?? null
    if (typeof value === 'number' && Number.isFinite(value)) return value
    if (typeof value === 'function' || typeof value === 'symbol') return `[${typeof value}]`
    return this.#text(redact(String(value)))
  }

  #object(value: object, parents: readonly object[]): Json {
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? '[invalid date]' : value.toISOString()
    if (value instanceof Error) return this.#text(failureText(value))
    if (value instanceof URL) return this.#text(redact(value.href))
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`
    if (parents.includes(value)) return '[circular]'
    if (parents.length >= MAX_DEPTH) return '[too deep]'
    const inside = [...parents, value]
    return Array.isArray(value) || value instanceof Set ? this.#list(value, inside) : this.#members(value, inside)
  }

  #list(values: Iterable<unknown> & ({ length: number } | { size: number }), parents: readonly object[]): Json {
    const copies: Json[] = []
    for (const value of values) {
      if (this.#isFull(copies.length)) {
        const count = 'length' in values ? values.length : values.size
        return [...copies, `[${count - copies.length} more]`]
      }
      copies.push(this.copy(value, parents))
    }
    return copies
  }

  #members(value: object, parents: readonly object[]): Json {
    const keys: unknown[] = value instanceof Map ? [...value.keys()] : Object.keys(value)
    const copies: [string, Json][] = []
    for (const key of keys) {
      if (this.#isFull(copies.length)) {
        copies.push(['…', `[${keys.length - copies.length} more]`])
        break
      }
      copies.push([this.#text(label(String(key))), this.#member(value, key, parents)])
    }
    return Object.fromEntries(copies)
  }

  #member(holder: object, key: unknown, parents: readonly object[]): Json {
    try {
      const member: unknown = holder instanceof Map ? holder.get(key) : Reflect.get(holder, key as string)
      // That there is a password, or none, is no secret.
      const isBare = member === null || member === undefined || typeof member === 'boolean'
      return isSecretKey(String(key)) && !isBare ? '[redacted]' : this.copy(member, parents)
    } catch {
      return '[unreadable]'
    }
  }

  #text(text: string): string {
    this.#left -= text.length
    return text
  }

  #isFull(entries: number): boolean {
    return entries >= MAX_ENTRIES || this.#left <= 0
  }
}
