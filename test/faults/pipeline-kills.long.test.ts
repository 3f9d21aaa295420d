import { PipelineScene } from './pipeline-scene.js'
import { diceOf } from './seed.js'
import { pipelineKillFaults } from './suites/pipeline-kills.js'

const dice = diceOf('kill -9 of many runs')

for (let run = 0; run < 5; run++)
  pipelineKillFaults({ openScene: () => PipelineScene.open(), dice, workers: 0, items: 10_000, kills: 20 })
