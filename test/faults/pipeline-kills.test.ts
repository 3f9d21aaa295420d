import { PipelineScene } from './pipeline-scene.js'
import { diceOf } from './seed.js'
import { pipelineKillFaults } from './suites/pipeline-kills.js'

const dice = diceOf('kill -9 of a run')

pipelineKillFaults({ openScene: () => PipelineScene.open(), dice, workers: 0, items: 5000, kills: 3 })
