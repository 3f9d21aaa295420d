import { ownPostgres } from './own-postgres.js'
import { PipelineScene } from './pipeline-scene.js'
import { diceOf } from './seed.js'
import { pipelineKillFaults } from './suites/pipeline-kills.js'

const dice = diceOf('kill -9 of many runs')
const postgres = ownPostgres()

for (let run = 0; run < 5; run++) {
  pipelineKillFaults({ openScene: () => PipelineScene.open(), dice, workers: 0, items: 10_000, kills: 20 })
  const openScene = async () => PipelineScene.open(await postgres.server.createDatabase())
  pipelineKillFaults({ openScene, dice, workers: 2, items: 10_000, kills: 30 })
}
