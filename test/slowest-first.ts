import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files whose tests start processes, and mostly wait for them. */
const SLOW = /\/test\/|\/cli\/commands\//

/** Starts the slow files first, however short their text is, so that none of them is left over when all others are done. */
export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isSlow = ({ moduleId }: TestSpecification) => SLOW.test(moduleId)
    const sorted = await super.sort(files)
    return [...sorted.filter(isSlow), ...sorted.filter(file => !isSlow(file))]
  }
}
