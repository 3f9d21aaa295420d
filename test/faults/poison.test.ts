import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { NO_JSON, poisonFaults } from './suites/poison.js'

diceOf('poison')
poisonFaults({ openScene: () => Scene.open(), noJson: [...NO_JSON, '\ud800', '"\0"'] })
