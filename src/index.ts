export * from './call/index.js'
export * from './policy/index.js'
export * from './telemetry/index.js'
export { type Clock, systemClock } from './time/index.js'
