import { beforeEach, describe, expect, it, vi } from 'vitest'
import { IdempotencyGuard, MemoryIdempotencyStore } from '../idempotency/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { retry } from './index.js'

let clock: FakeClock
let guard: IdempotencyGuard
let store: MemoryIdempotencyStore
let end: (result: string) => void
const effect = vi.fn(() => new Promise<string>(resolve => (end = resolve)))

beforeEach(() => {
  clock = fakeClock()
  store = new MemoryIdempotencyStore({ clock })
  guard = new IdempotencyGuard({ store, clock })
  effect.mockClear()
})

type Guarded = (context: { readonly signal: AbortSignal }) => Promise<string>

/** Ways to call the function under the signal of a run. None of the functions looks at its own signal. */
const ways: [string, Guarded][] = [
  ['a call with the signal', ({ signal }) => retry(effect, { timeout: '10s' }, { signal, clock })],
  ['a call, and more after it', async ({ signal }) => `${await retry(effect, {}, { signal, clock })}`],
  [
    'a call within another',
    ({ signal }) => retry(attempt => retry(effect, {}, { within: attempt, clock }), {}, { signal, clock }),
  ],
  [
    "a call with another's signal",
    ({ signal }) => retry(attempt => retry(effect, {}, { signal: attempt.signal, clock }), {}, { signal, clock }),
  ],
  ['another run', ({ signal }) => guard.run('inner', effect, { signal })],
  ['a call in another run', ({ signal }) => guard.run('inner', s => retry(effect, {}, { ...s, clock }), { signal })],
]

describe.each(ways)('%s, under a guard', (_, fn) => {
  it('keeps the key until its function has ended, though the caller is told of the abort at once', async () => {
    const controller = new AbortController()
    const aborted = guard.run('k', fn, { signal: controller.signal })
    const rejected = expect(aborted).rejects.toBe('enough')
    await clock.advance(1)
    expect(effect).toHaveBeenCalledTimes(1)
    controller.abort('enough')
    await rejected

    const next = guard.run('k', () => 'beside it')
    await clock.advance('5m')
    expect(await Promise.race([next, 'waits'])).toBe('waits')
    end('late')
    await clock.advance('1s')
    await expect(next).resolves.toBe('late')
    expect(clock.timers).toBe(0)
  })
})

it('a call under any other signal still ends at once', async () => {
  const controller = new AbortController()
  const call = retry(effect, {}, { signal: controller.signal, clock })
  controller.abort('enough')
  await expect(call).rejects.toBe('enough')
})

it('a call whose key was lost ends at once: the key is not its own any more', async () => {
  const run = guard.run('k', ({ signal }) => retry(effect, {}, { signal, clock }), { wait: false })
  const rejected = expect(run).rejects.toMatchObject({ name: 'IdempotencyLeaseLostError' })
  await clock.advance(1)
  await store.clear('k')
  await clock.advance('30s')
  await rejected
})
