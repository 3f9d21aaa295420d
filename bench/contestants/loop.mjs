// The loop that people write by hand. It has no policy, keeps no history and reports nothing.
import { setTimeout as sleep } from 'node:timers/promises'
import { HOUR_MS } from './hour.mjs'

export const name = 'loop by hand'

export function immediate() {
  return async fn => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await fn({ attempt })
      } catch (error) {
        if (attempt >= 3) throw error
      }
    }
  }
}

export function patient(signal) {
  const wait = signal === undefined ? delay : () => sleep(HOUR_MS, undefined, { signal })
  return async fn => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await fn({ attempt })
      } catch (error) {
        if (attempt >= 3) throw error
      }
      await wait()
    }
  }
}

export const keeps = 'keeps nothing'

function delay() {
  return new Promise(resolve => setTimeout(resolve, HOUR_MS))
}

/** With a time limit per attempt, for the whole stack's table: a timer is what costs most there. */
export function withTimeout() {
  return async fn => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await within(5000, fn({ attempt }))
      } catch (error) {
        if (attempt >= 3) throw error
      }
    }
  }
}

async function within(ms, promise) {
  let timer
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('too late')), ms)
  })
  try {
    return await Promise.race([promise, timeout])
  } finally {
    clearTimeout(timer)
  }
}
