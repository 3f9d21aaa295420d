import { expect, it } from 'vitest'
import { MemoryStore } from '../store/internal.js'

import { setRates } from './set-rates.js'

it('the rates of a stage that has no items yet leave its other limits as they are', async () => {
  const store = new MemoryStore()
  const lanes = { kind: 'pipeline:enrich', category: 'call' }
  await store.limit(lanes, { isShared: true, concurrency: 3 })
  const rates = { requests: { perSecond: 5 } }
  await setRates(store, { pipeline: 'enrich', stage: 'call' }, rates, { who: 'ada' })
  const { limits } = await store.laneRules(lanes)
  expect(limits.at(-1)?.limits).toMatchObject({ isShared: true, concurrency: 3, rates })
})
