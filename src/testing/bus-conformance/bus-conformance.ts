import { type ConformanceCase, casesOf } from '../conformance-case.js'
import { CONSUME } from './consume.js'
import { FAILED_QUEUES } from './failed-queues.js'
import type { BusBehaviours, BusUnderTest } from './harness.js'
import { PUBLISH } from './publish.js'
import { TOPOLOGY } from './topology.js'

const THEMES: Readonly<Record<string, BusBehaviours>> = {
  topology: TOPOLOGY,
  publish: PUBLISH,
  consume: CONSUME,
  'failed queues': FAILED_QUEUES,
}

/**
 * The behaviour that every bus must have, as cases for any test runner.
 *
 * ```ts
 * for (const { name, run } of busConformance(open)) it(name, run)
 * ```
 */
export function busConformance(open: () => Promise<BusUnderTest> | BusUnderTest): readonly ConformanceCase[] {
  return casesOf(THEMES, async behaviour => {
    const { bus, maxBytes, close } = await open()
    const unique = crypto.randomUUID().slice(0, 13)
    try {
      await behaviour({ bus, maxBytes, queue: `queue-${unique}`, type: `type.${unique}` })
    } finally {
      await bus.close()
      await close?.()
    }
  })
}
