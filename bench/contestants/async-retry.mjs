import retry from 'async-retry'
import { HOUR_MS } from './hour.mjs'

export const name = 'async-retry'

export function immediate() {
  const options = { retries: 2, minTimeout: 0, maxTimeout: 0, randomize: false }
  return fn => retry(fn, options)
}

export function patient(signal) {
  if (signal !== undefined) return undefined
  const options = { retries: 2, minTimeout: HOUR_MS, maxTimeout: HOUR_MS, randomize: false }
  return fn => retry(fn, options)
}

export const keeps = 'keeps every error'

export const entry = `export { default as retry } from 'async-retry'`
