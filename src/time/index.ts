export { unwatchAbort, watchAbort } from './abort.js'
export { type Clock, systemClock } from './clock.js'
export { sleep } from './sleep.js'
