import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { zombieFaults } from './suites/zombie.js'

zombieFaults(() => Scene.open(), diceOf('SIGSTOP beyond the lease'))
