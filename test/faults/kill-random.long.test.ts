import { ownPostgres } from './own-postgres.js'
import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { killRandomFaults } from './suites/kill-random.js'

const dice = diceOf('kill -9 at many more random moments')
const postgres = ownPostgres()

killRandomFaults({ openScene: () => Scene.open(), dice, kills: 500 })
killRandomFaults({ openScene: async () => Scene.on(await postgres.server.createDatabase()), dice, kills: 200 })
