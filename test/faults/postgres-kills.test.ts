import { ownPostgres } from './own-postgres.js'
import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { killPointFaults } from './suites/kill-points.js'
import { killRandomFaults } from './suites/kill-random.js'

const dice = diceOf('kill -9 on PostgreSQL')
const postgres = ownPostgres()
const openScene = async () => Scene.on(await postgres.server.createDatabase())

killPointFaults({ openScene, dice, endsWithProcess: false })
killRandomFaults({ openScene, dice, kills: 15 })
