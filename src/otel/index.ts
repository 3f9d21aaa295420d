export { spanEvents } from './span-events.js'
export { type TraceOptions, traceWork } from './trace-work.js'
