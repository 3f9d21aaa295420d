export { spanEvents } from './span-events.js'
export { traceWork } from './trace-work.js'
