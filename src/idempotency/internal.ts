// For the other folders of this package. Users import from index.ts.

export type { IdempotencyGuardOptions } from './guard.js'
export { checkKey, fingerprint } from './idempotency-key.js'
export { decodeResult, encodeStorable } from './result-codec.js'
