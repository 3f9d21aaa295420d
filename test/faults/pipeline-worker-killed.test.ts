import { describe, expect, it } from 'vitest'
import { PipelineScene, RUN } from './pipeline-scene.js'
import { makeSingle } from './pipeline-stages.js'
import { until } from './scene.js'

const ITEMS = 300
const IN_FLIGHT = 100

describe('a worker that is killed with 100 items in flight', { timeout: 300_000 }, () => {
  it('costs no item its only attempt: there is no dead letter', async () => {
    const scene = await PipelineScene.open()
    try {
      const victim = scene.start({ pipeline: 'single', count: ITEMS, concurrency: IN_FLIGHT })
      await until('100 items are in flight', () => scene.starts().length === IN_FLIGHT)
      // The source is read to its end, so that any process can go on.
      await until('all items are taken', async () => (await scene.store.runs.get(RUN))?.isRead === true)
      await victim.kill()

      scene.signal('go')
      const run = await makeSingle(scene.folder, IN_FLIGHT).resume(RUN, { store: scene.store, lease: '400ms' })
      expect(await run.result).toMatchObject({ status: 'completed', counts: { succeeded: ITEMS, dead: 0 } })
      const { items } = await scene.store.runs.items(RUN, { limit: ITEMS })
      const ledgers = await scene.store.ledgers(items.map(({ id }) => id))
      const lost = ledgers.filter(ledger => ledger.some(({ outcome }) => outcome === 'lost')).length
      // Those that ran, and as many that waited in the worker for a slot.
      expect(lost).toBeGreaterThanOrEqual(IN_FLIGHT)
      expect(lost).toBeLessThanOrEqual(2 * IN_FLIGHT)
      expect(scene.starts()).toHaveLength(ITEMS + IN_FLIGHT)
    } finally {
      await scene.close()
    }
  })
})
