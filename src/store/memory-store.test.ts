import { describe, it } from 'vitest'
import { fakeClock } from '../testing/index.js'
import { storeConformance, storeModelTest } from '../testing/store-conformance/index.js'
import { MemoryStore } from './memory-store.js'

const open = () => {
  const clock = fakeClock()
  return { store: new MemoryStore({ clock }), advance: (ms: number) => clock.advance(ms) }
}

describe('the memory store keeps the contract', () => {
  for (const { name, run } of storeConformance(open)) it(name, run)
})

const seed = Number(process.env.REDRIVE_TEST_SEED ?? Date.now() % 1_000_000)

it(`the memory store does what its model does (seed ${seed})`, () => storeModelTest(open, { seed, runs: 200 }), 60_000)
