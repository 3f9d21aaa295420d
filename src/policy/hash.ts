import { createHash } from 'node:crypto'
import { canonicalJson } from './canonical-json.js'

/** The SHA-256 of a value's canonical JSON, in 64 hex digits: equal data, equal hash, whatever the order of its keys. */
export function hashJson(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex')
}
