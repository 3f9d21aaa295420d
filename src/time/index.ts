export { unwatchAbort, watchAbort } from './abort.js'
export { type Clock, type Sleeper, systemClock, type Timer } from './clock.js'
export { sleep } from './sleep.js'
export { soon } from './soon.js'
