import { ownPostgres } from './own-postgres.js'
import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { poisonFaults } from './suites/poison.js'

diceOf('poison on PostgreSQL')
const postgres = ownPostgres()
poisonFaults(async () => Scene.on(await postgres.server.createDatabase()))
