import { diceOf } from './seed.js'
import { batchKills } from './suites/batch-kills.js'

const dice = diceOf('kill -9 of producers and workers of a large batch')

batchKills({ database: 'sqlite', dice, count: 100_000, kills: 20 })
batchKills({ database: 'postgres', dice, count: 100_000, kills: 20 })
