import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { PipelineScene, RUN } from './pipeline-scene.js'
import { isFatal, isSkipped, makeItems, resultOf } from './pipeline-stages.js'
import { until } from './scene.js'
import { diceOf } from './seed.js'

const dice = diceOf('the results of a run that is killed')
const ITEMS = 3000
const KILLS = 2

/** The lines of a file of results. A line that is torn is not JSON. */
const linesOf = (path: string) =>
  readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line))

/** The results of all items that succeed, in the order of the source. */
const expected = () =>
  [...makeItems(ITEMS)].filter(item => !isSkipped(item) && !isFatal(item)).map(({ n }) => resultOf(n))

describe('the results of a run that is killed', { timeout: 120_000 }, () => {
  it('as they come: no line is torn or doubled', async () => {
    const scene = await PipelineScene.open()
    try {
      const output = { path: join(scene.folder, 'out.jsonl'), isUnordered: true }
      for (let kill = 0; kill < KILLS; kill++) {
        const child = scene.start({ count: ITEMS, output })
        await child.ready
        await sleep(dice.between(50, 600))
        await child.kill()
      }
      await scene.start({ count: ITEMS, output }).report()
      const lines = linesOf(output.path)
      const succeeded = (await scene.store.runs.get(RUN))?.counts.succeeded
      expect(lines).toHaveLength(succeeded ?? -1)
      const places = new Map(expected().map(result => [result.n, result]))
      for (const line of lines) {
        expect(line).toEqual(places.get(line.n))
        places.delete(line.n)
      }
      expect((await scene.store.runs.outputs(RUN, 10)).length).toBe(0)
    } finally {
      await scene.close()
    }
  })

  it('in the order of the source: the file is whole, or not there', async () => {
    const scene = await PipelineScene.open()
    try {
      const output = { path: join(scene.folder, 'out.jsonl'), isUnordered: false }
      const isCompleted = async () => (await scene.store.runs.get(RUN))?.status === 'completed'
      for (let kill = 0; kill < KILLS; kill++) {
        const child = scene.start({ count: ITEMS, output })
        await until('the run has ended', isCompleted)
        await sleep(dice.between(0, 300))
        await child.kill()
        if (existsSync(output.path)) expect(linesOf(output.path)).toEqual(expected())
      }
      await scene.start({ count: ITEMS, output }).report()
      expect(linesOf(output.path)).toEqual(expected())
    } finally {
      await scene.close()
    }
  })
})
