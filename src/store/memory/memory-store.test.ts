import { describe, expect, it } from 'vitest'
import { storeModelTest } from '../../../test/conformance/model-test.js'
import { storeConformance } from '../../../test/conformance/store-conformance.js'
import { fakeClock } from '../../testing/index.js'
import { MemoryStore } from './memory-store.js'

const open = () => {
  const clock = fakeClock()
  return { store: new MemoryStore({ clock }), advance: (ms: number) => clock.advance(ms) }
}

describe('the memory store keeps the contract', () => {
  for (const { name, run } of storeConformance(open)) it(name, run)
})

const seed = Number(process.env.REDRIVE_TEST_SEED ?? Date.now() % 1_000_000)

it(
  `the memory store does what its model does (seed ${seed})`,
  () => storeModelTest(open, { seed, runs: 200, withinMs: 50_000 }),
  60_000,
)

it('an asynchronous function under a key runs once, and who comes meanwhile waits for it', async () => {
  const store = new MemoryStore()
  let runs = 0
  const work = async () => {
    await new Promise(resolve => setImmediate(resolve))
    if (++runs === 1) throw new Error('the first one fails')
    return runs
  }
  const results = await Promise.allSettled([1, 2, 3].map(() => store.once('k', work)))
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled'])
  expect(runs).toBe(2)
})

it('refuses an option that it does not know', () => {
  const options = { clok: fakeClock() } as object
  expect(() => new MemoryStore(options)).toThrow("A memory store takes no 'clok'. Did you mean 'clock'?")
})
