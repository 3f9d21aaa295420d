import { Effect, Schedule } from 'effect'
import { HOUR_MS } from './hour.mjs'

export const name = 'Effect'

const attempt = fn => Effect.tryPromise({ try: fn, catch: error => error })

export function immediate() {
  const policy = { times: 2 }
  return fn => Effect.runPromise(Effect.retry(attempt(fn), policy))
}

export function patient(signal) {
  const policy = { times: 2, schedule: Schedule.spaced(HOUR_MS) }
  return fn => Effect.runPromise(Effect.retry(attempt(fn), policy), { signal })
}

export const keeps = 'keeps a fiber'

export function stack() {
  const seen = { success: 0, failure: 0 }
  const policy = { times: 2 }
  const onSuccess = () => Effect.sync(() => seen.success++)
  const onFailure = () => Effect.sync(() => seen.failure++)
  return fn =>
    Effect.runPromise(
      attempt(fn).pipe(Effect.timeout(5000), Effect.tap(onSuccess), Effect.tapError(onFailure), Effect.retry(policy)),
    )
}

export const stackNote = 'no breaker, no budget'

export const entry = `
  import { Effect, Schedule } from 'effect'
  const policy = { times: 2, schedule: Schedule.exponential(100) }
  export const retry = fn => Effect.runPromise(Effect.retry(Effect.tryPromise({ try: fn, catch: e => e }), policy))`
