import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { handlerFaults } from './suites/handlers.js'

diceOf('handlers that harm their worker')
handlerFaults(() => Scene.open())
