import { createHash } from 'node:crypto'
import { OptionError } from '../policy/index.js'

const SEPARATOR = '-'
/** Joined ids that are longer than this are hashed. */
const LONGEST = 100
/** Hex digits of a hash that are kept. */
const DIGITS = 16
const LIKE_A_HASH = /^[0-9a-f]{16}$/
/** A byte that no text has, so that no list of joined ids has the same input. */
const LIST = Buffer.of(0xff)

/**
 * Builds the idempotency key of an event from the service that handles it and the ids of the things that it is about.
 *
 * ```ts
 * eventKey('chunking', ['m1', 'm2']) // 'chunking-m1-m2'
 * ```
 *
 * Two lists of ids never share a key: where joining them with `-` would be ambiguous, the key has a hash of the list.
 */
export function eventKey(service: string, ids: readonly string[]): string {
  if (service === '') throw new OptionError('service', `'service' must name the service that handles the event.`)
  if (ids.length === 0 || ids.some(id => (id ?? '') === ''))
    throw new OptionError('key', `The key of an event for '${service}' needs at least one id, and none of them empty.`)
  return `${service}${SEPARATOR}${keyOf(ids.map(String))}`
}

/** The key of an event, or the key of the ids in a list. */
export function keyFrom(service: string, key: string | readonly string[]): string {
  if (key === '') throw new OptionError('key', `The key of an event for '${service}' must not be empty.`)
  return typeof key === 'string' ? key : eventKey(service, key)
}

function keyOf(ids: readonly string[]): string {
  const joined = ids.join(SEPARATOR)
  const hash = createHash('sha256')
  if (LIKE_A_HASH.test(joined) || ids.some(id => id.includes(SEPARATOR))) hash.update(LIST).update(JSON.stringify(ids))
  else if (joined.length > LONGEST) hash.update(joined)
  else return joined
  return hash.digest('hex').slice(0, DIGITS)
}
