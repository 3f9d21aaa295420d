import { ownPostgres } from './own-postgres.js'
import { PipelineScene } from './pipeline-scene.js'
import { diceOf } from './seed.js'
import { pipelineKillFaults } from './suites/pipeline-kills.js'

const dice = diceOf('kill -9 of a run on PostgreSQL')
const postgres = ownPostgres()
const openScene = async () => PipelineScene.open(await postgres.server.createDatabase())

pipelineKillFaults({ openScene, dice, workers: 2, items: 2000, kills: 6 })
