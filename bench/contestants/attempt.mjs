import { retry } from '@lifeomic/attempt'
import { HOUR_MS } from './hour.mjs'

export const name = '@lifeomic/attempt'

export function immediate() {
  const options = { maxAttempts: 3, delay: 0 }
  return fn => retry(fn, options)
}

export function patient(signal) {
  if (signal !== undefined) return undefined
  const options = { maxAttempts: 3, delay: HOUR_MS }
  return fn => retry(fn, options)
}

export const keeps = 'keeps nothing'

export function stack() {
  const seen = { started: 0, failed: 0 }
  const options = {
    maxAttempts: 3,
    timeout: 5000,
    beforeAttempt: () => {
      seen.started++
    },
    handleError: () => {
      seen.failed++
    },
  }
  return fn => retry(fn, options)
}

export const stackNote = 'no breaker, no budget'

export const entry = `export { retry } from '@lifeomic/attempt'`
