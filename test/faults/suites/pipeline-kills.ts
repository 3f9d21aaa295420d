import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { expectRunAccountedFor } from '../pipeline-account.js'
import { type PipelineScene, RUN } from '../pipeline-scene.js'
import type { Dice } from '../seed.js'

export interface PipelineKills {
  readonly openScene: () => Promise<PipelineScene>
  readonly dice: Dice
  /** How many processes work on the run besides the one that reads its source. */
  readonly workers: number
  readonly items: number
  readonly kills: number
}

/** Processes of a run that are killed at random moments, in turn. */
export function pipelineKillFaults({ openScene, dice, workers, items, kills }: PipelineKills): void {
  const whom = workers === 0 ? 'its process' : `its reader and ${workers} workers`
  describe(`a run of ${items} items`, { timeout: 600_000 }, () => {
    it(`is killed ${kills} times, ${whom}, and resumed: no item is lost, and no completed stage runs again`, async () => {
      const scene = await openScene()
      try {
        const startAt = (place: number) => scene.start({ count: items, reads: place === 0 })
        const children = Array.from({ length: workers + 1 }, (_, place) => startAt(place))
        for (let killed = 0; killed < kills; killed++) {
          const place = killed % children.length
          const child = children[place]
          // Some are killed before they have begun.
          if (dice.between(1, 8) > 1) await child?.ready
          await sleep(dice.between(0, 500))
          await child?.kill()
          children[place] = startAt(place)
        }
        const reports = await Promise.all(children.map(child => child.report()))
        for (const { status } of reports) expect(status).toBe('completed')

        const starts = scene.starts().length
        const run = await scene.store.runs.get(RUN)
        process.stdout.write(`[faults] ${kills} kills, ${starts} calls of stages: ${JSON.stringify(run?.counts)}\n`)
        await expectRunAccountedFor(scene, items)
      } finally {
        await scene.close()
      }
    })
  })
}
