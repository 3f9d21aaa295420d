// Compiled with `exactOptionalPropertyTypes` by exact-optional.test.ts: an option may be given as undefined everywhere,
// since callers pass on what they were given themselves.
import {
  bulkhead,
  CircuitBreaker,
  type PolicyInput,
  RetryManager,
  retry,
  retryBudget,
  retryFetch,
  retrying,
} from 'redrive'
import { consume, handleEvent } from 'redrive/event'
import { IdempotencyGuard, MemoryIdempotencyStore } from 'redrive/idempotency'
import { extendPolicy, policy } from 'redrive/policy'
import { openSqlite } from 'redrive/sqlite'
import { MemoryStore } from 'redrive/store'
import { declareTask, defineTask, TaskQueue, Worker } from 'redrive/task'

interface Given {
  readonly signal?: AbortSignal
  readonly attempts?: number
  readonly timeout?: '5s'
  readonly key?: string
}

export async function passOn({ signal, attempts, timeout, key }: Given): Promise<void> {
  const input: PolicyInput = { attempts, timeout, backoff: { base: timeout, max: timeout }, jitter: undefined }
  await retry(() => 1, input, { signal, deadline: timeout, name: key, breaker: undefined, sink: undefined })
  await retrying(() => 1, input, { signal })()
  await retryFetch('https://a.example', { policy: undefined, idempotencyKey: key, retry: { id: key } })
  await new RetryManager({ sink: undefined, clock: undefined }).execute('A', 'b', () => 1, {
    signal,
    policy: input,
    idempotencyKey: key,
  })
  new CircuitBreaker('a', { probes: attempts, openFor: timeout })
  bulkhead('a', { concurrency: 1, queue: attempts })
  retryBudget('a', { max: attempts })
  extendPolicy(policy(input), input)

  const store = new MemoryStore()
  const task = defineTask('a', { policy: undefined, payload: undefined, handler: () => 1 })
  declareTask('b', { policy: undefined })
  await new TaskQueue(store).enqueue(task, 1, { id: key, key, delay: timeout, priority: attempts, runAt: undefined })
  await new TaskQueue(store).list({}, { limit: attempts, after: key })
  await store.limit(
    { kind: 'a', category: key, key },
    { concurrency: attempts, perSecond: attempts, isOrdered: undefined },
  )
  await store.limit({ kind: 'a', key }, { isShared: true, concurrency: attempts, rates: undefined })
  await store.pause({ kind: 'a', key }, { isPaused: true })
  new Worker(store, { tasks: [task], concurrency: attempts, lease: timeout, name: key, sink: undefined })
  new IdempotencyGuard({ store: new MemoryIdempotencyStore({ keepFor: timeout }), lease: timeout })
  await handleEvent(() => 1, {}, { service: 'a', key: 'b', signal, policy: undefined })
  await consume({} as never, 'q', {
    service: 'a',
    key: () => 'b',
    store,
    handler: () => 1,
    concurrency: attempts,
    policy: undefined,
  })
  await openSqlite('a.db', { create: undefined, clock: undefined })
}
