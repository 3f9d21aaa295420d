import { expect, it } from 'vitest'
import { RetryableError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'

import { fakeClock } from '../testing/index.js'
import { untilEmpty } from './index.js'
import type { TaskScope, UntilEmptyOptions } from './internal.js'

/** A store with a task of each kind, and whether the waiting for some of them is over. */
async function scene() {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  await store.enqueue(['a', 'b'].map(kind => ({ id: kind, kind, category: 'news', payload: '0' })))
  const waiting = (scope: TaskScope, options: UntilEmptyOptions = {}) => {
    const state = { isOver: false }
    const over = untilEmpty(store, scope, { clock, ...options }).then(() => {
      state.isOver = true
    })
    return { state, over }
  }
  return { clock, store, waiting }
}

it('resolves once the tasks of its kinds and categories have ended, and not before', async () => {
  const { clock, store, waiting } = await scene()
  const { state, over } = waiting({ kinds: ['a'], categories: ['news'] })
  const { over: nothing } = waiting({ kinds: ['a', 'b'], categories: ['other'] })
  await nothing
  await clock.advance('1h')
  expect(state.isOver).toBe(false)
  await store.cancel(['a'])
  await clock.advance('1s')
  await over
  expect(state.isOver).toBe(true)
})

it('says once that nothing runs, and again after something has run', async () => {
  const { clock, store, waiting } = await scene()
  let idle = 0
  const stop = new AbortController()
  const { over } = waiting({ kinds: ['a'] }, { onIdle: () => idle++, signal: stop.signal })
  await clock.advance('2s')
  expect(idle).toBe(0)
  await clock.advance('1m')
  expect(idle).toBe(1)
  const rooms = [{ kinds: ['a'] }]
  await store.claim({ worker: 'w', leaseMs: 3_600_000, rooms, limit: 1, isIdle: true })
  await clock.advance('1m')
  expect(idle).toBe(1)
  await store.leave('w')
  await clock.advance('1m')
  expect(idle).toBe(2)
  stop.abort()
  await over
})

it('waits while the store is away, and ends at once when its signal aborts', async () => {
  const { clock, store, waiting } = await scene()
  store.count = () => Promise.reject(new RetryableError('away'))
  const stop = new AbortController()
  const { state, over } = waiting({ kinds: ['a'] }, { signal: stop.signal })
  await clock.advance('1h')
  expect(state.isOver).toBe(false)
  stop.abort()
  await over
  expect(clock.timers).toBe(0)
})

it('rejects if the store refuses for good', async () => {
  const { store } = await scene()
  store.count = () => Promise.reject(new TypeError('a bug'))
  await expect(untilEmpty(store, { kinds: ['a'] })).rejects.toThrow('a bug')
})
