import { failureText } from './describe-failure.js'
import { label, redact } from './redact.js'
import { isSecretKey } from './secrets.js'

/** Any JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

const MAX_DEPTH = 6
/** The maximum number of entries in one list or object. */
const MAX_ENTRIES = 100
/** The approximate maximum number of characters in total. */
const MAX_CHARACTERS = 16_000
/** The cost of each value besides its text, so that many small ones are bounded too. */
const VALUE_CHARACTERS = 8

/**
 * Copies a caller's context in a form that can be stored: replaces values under secret names, redacts texts, and bounds
 * depth and size. Never throws, and never changes its argument.
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
    // In `['Cookie', 'a=b']` and in a list of raw headers, a name precedes its value.
    let name: string | undefined
    for (const value of values) {
      if (this.#isFull(copies.length)) {
        const count = 'length' in values ? values.length : values.size
        return [...copies, `[${count - copies.length} more]`]
      }
      copies.push(this.#value(name, value, parents))
      name = typeof value === 'string' && /^\S{1,100}$/.test(value) ? value : undefined
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
      // In `{ name: 'Cookie', value: 'a=b' }`, the name is a value itself.
      const name = key === 'value' ? (Reflect.get(holder, 'name') ?? Reflect.get(holder, 'key') ?? key) : String(key)
      return this.#value(name, member, parents)
    } catch {
      return '[unreadable]'
    }
  }

  /** Redacts the value of a secret name. Whether there is a password at all is no secret. */
  #value(name: unknown, value: unknown, parents: readonly object[]): Json {
    const isBare = value === null || value === undefined || typeof value === 'boolean'
    return typeof name === 'string' && isSecretKey(name) && !isBare ? '[redacted]' : this.copy(value, parents)
  }

  #text(text: string): string {
    this.#left -= text.length
    return text
  }

  #isFull(entries: number): boolean {
    return entries >= MAX_ENTRIES || this.#left <= 0
  }
}
