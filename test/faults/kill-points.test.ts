import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { killPointFaults } from './suites/kill-points.js'

killPointFaults({ openScene: () => Scene.open(), dice: diceOf('kill -9 at each point'), endsWithProcess: true })
