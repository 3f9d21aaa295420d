import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { killRandomFaults } from './suites/kill-random.js'

killRandomFaults({ openScene: () => Scene.open(), dice: diceOf('kill -9 at random moments'), kills: 25 })
