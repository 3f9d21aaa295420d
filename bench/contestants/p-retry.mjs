// It fills in its defaults at every call, which takes longer than the call: most options are left out, as people do.
import pRetry from 'p-retry'
import { HOUR_MS } from './hour.mjs'

export const name = 'p-retry'

export function immediate() {
  const options = { retries: 2, minTimeout: 0 }
  return fn => pRetry(fn, options)
}

export function patient(signal) {
  const options = { retries: 2, minTimeout: HOUR_MS, maxTimeout: HOUR_MS, signal }
  return fn => pRetry(fn, options)
}

export const keeps = 'keeps nothing'

export const entry = `export { default as retry } from 'p-retry'`
