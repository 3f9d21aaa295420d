// For the other folders of this package. Users import from index.ts.

export { checkKey, fingerprint } from './idempotency-key.js'
export { decodeResult, encodeStorable } from './result-codec.js'
