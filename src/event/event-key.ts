import { createHash } from 'node:crypto'
import { OptionError } from '../policy/index.js'

/** Joined ids that are longer than this are hashed. */
const LONGEST = 100

/**
 * The idempotency key of an event: the service that handles it, and the ids of what it speaks of.
 *
 * ```ts
 * eventKey('chunking', ['m1', 'm2']) // 'chunking-m1-m2'
 * ```
 */
export function eventKey(service: string, ids: readonly string[]): string {
  if (service === '') throw new OptionError('service', `'service' must name the service that handles the event.`)
  if (ids.length === 0 || ids.some(id => (id ?? '') === ''))
    throw new OptionError('key', `The key of an event for '${service}' needs at least one id, and none of them empty.`)
  const joined = ids.join('-')
  if (joined.length <= LONGEST) return `${service}-${joined}`
  return `${service}-${createHash('sha256').update(joined).digest('hex').slice(0, 16)}`
}
