import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { poisonFaults } from './suites/poison.js'

diceOf('poison')
poisonFaults(() => Scene.open())
