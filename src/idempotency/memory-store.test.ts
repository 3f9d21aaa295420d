import { describe, expect, it } from 'vitest'
import { OptionError } from '../policy/index.js'
import { idempotencyStoreConformance } from '../testing/idempotency-store-conformance.js'
import { fakeClock } from '../testing/index.js'
import { MemoryIdempotencyStore } from './index.js'

const request = { fingerprint: 'f', leaseMs: 1000 }

async function done(store: MemoryIdempotencyStore, key: string): Promise<void> {
  const claim = await store.claim(key, request)
  if (claim.state === 'fresh') await store.complete(key, claim.token, key)
}

describe('the memory store keeps the contract', () => {
  const open = () => {
    const clock = fakeClock()
    return { store: new MemoryIdempotencyStore({ clock }), pass: (ms: number) => clock.advance(ms) }
  }
  for (const { name, run } of idempotencyStoreConformance(open)) it(name, run)
})

describe('a memory store with keepFor', () => {
  it('forgets a done key when its time is over, and not before', async () => {
    const clock = fakeClock()
    const store = new MemoryIdempotencyStore({ clock, keepFor: '1h' })
    await done(store, 'k')
    await clock.advance(3_599_999)
    expect(await store.claim('k', request)).toMatchObject({ state: 'done' })
    await clock.advance(1)
    expect(await store.claim('k', request)).toMatchObject({ state: 'fresh' })
  })

  it('does not grow for ever, and forgets only what is due', async () => {
    const clock = fakeClock()
    const store = new MemoryIdempotencyStore({ clock, keepFor: '10s' })
    for (let second = 0; second < 100; second++) {
      await done(store, `k${second}`)
      await clock.advance('1s')
    }
    expect(store.size).toBe(10)
    expect(await store.claim('k91', request)).toMatchObject({ state: 'done' })
  })

  it('counts from when a key was last done', async () => {
    const clock = fakeClock()
    const store = new MemoryIdempotencyStore({ clock, keepFor: '10s' })
    await done(store, 'k')
    await clock.advance('6s')
    await store.clear('k')
    await done(store, 'k')
    await clock.advance('6s')
    expect(await store.claim('k', request)).toMatchObject({ state: 'done' })
  })

  it('never forgets a key in progress', async () => {
    const clock = fakeClock()
    const store = new MemoryIdempotencyStore({ clock, keepFor: '1s' })
    await store.claim('k', { fingerprint: 'f', leaseMs: 60_000 })
    await clock.advance('30s')
    expect(await store.claim('k', request)).toMatchObject({ state: 'in_progress', leaseLeftMs: 30_000 })
  })

  it.each([0, -1, Number.NaN, 'soon'])('refuses a keepFor of %s', keepFor => {
    expect(() => new MemoryIdempotencyStore({ keepFor: keepFor as number })).toThrow(OptionError)
  })
})

it('a memory store without keepFor remembers until it is told to forget', async () => {
  const clock = fakeClock()
  const store = new MemoryIdempotencyStore({ clock })
  await done(store, 'k')
  await clock.advance('3650d')
  expect(await store.claim('k', request)).toMatchObject({ state: 'done' })
  await store.clear('k')
  expect(store.size).toBe(0)
})
