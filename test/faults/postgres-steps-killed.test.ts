import { ownPostgres } from './own-postgres.js'
import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { stepFaults } from './suites/steps.js'

const postgres = ownPostgres()

stepFaults(async () => Scene.on(await postgres.server.createDatabase()), diceOf('kill -9 within steps on PostgreSQL'))
