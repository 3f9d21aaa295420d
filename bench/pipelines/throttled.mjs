// Work on an API that throttles, and no rate configured.
import { pipeline, stage } from '../../dist/pipeline/index.js'
import { expectAll } from './redrive.mjs'

const IN_FLIGHT = 50

/** A run whose second of three stages calls the API. */
export async function run(store, count, url) {
  const api = pipeline(
    'throttled',
    stage('prepare', item => item, { concurrency: IN_FLIGHT }),
    stage('call', item => request(url).then(() => item), { concurrency: IN_FLIGHT }),
    stage('keep', item => item, { concurrency: IN_FLIGHT }),
  )
  const items = Array.from({ length: count }, (_, n) => n)
  expectAll(await api.run(items, { store }), count)
}

/** The backoff that people write by hand: each item by itself, exponential with full jitter, or as Retry-After says. */
export async function runNaively(_store, count, url) {
  let left = count
  const one = async () => {
    while (left-- > 0) {
      for (let attempt = 1; ; attempt++) {
        const failure = await request(url).then(
          () => undefined,
          error => error,
        )
        if (failure === undefined) break
        const hint = failure.retryAfterMs ?? 0
        await new Promise(resolve =>
          setTimeout(resolve, hint + Math.random() * Math.min(1000 * 2 ** (attempt - 1), 60_000)),
        )
      }
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, one))
}

async function request(url) {
  const response = await fetch(url)
  await response.text()
  if (response.status !== 429) return
  throw Object.assign(new Error('throttled'), {
    status: 429,
    headers: response.headers,
    retryAfterMs: Number(response.headers.get('retry-after')) * 1000,
  })
}
