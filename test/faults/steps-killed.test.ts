import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { stepFaults } from './suites/steps.js'

stepFaults(() => Scene.open(), diceOf('kill -9 within steps'))
