import { diceOf } from './seed.js'
import { batchKills } from './suites/batch-kills.js'

const dice = diceOf('kill -9 of producers and workers of a batch')

batchKills({ database: 'sqlite', dice, count: 2000, kills: 2 })
batchKills({ database: 'postgres', dice, count: 2000, kills: 2 })
