import { type ConformanceCase, casesOf } from '../conformance-case.js'
import { CHANGING } from './changes.js'
import { FINDING } from './documents.js'
import { type SourceBehaviours, type SourceUnderTest, sceneOf } from './harness.js'
import { SWEEPING } from './sweeps.js'

const THEMES: Readonly<Record<string, SourceBehaviours>> = { finding: FINDING, changing: CHANGING, sweeping: SWEEPING }

/**
 * The behaviour that every source of documents must have, as cases for any test runner.
 *
 * ```ts
 * for (const { name, run } of sourceConformance(open)) it(name, run)
 * ```
 */
export function sourceConformance(open: () => Promise<SourceUnderTest> | SourceUnderTest): readonly ConformanceCase[] {
  return casesOf(THEMES, async behaviour => {
    const under = await open()
    try {
      await behaviour(await sceneOf(under))
    } finally {
      await under.source.close()
      await under.other.close()
      await under.close?.()
    }
  })
}
