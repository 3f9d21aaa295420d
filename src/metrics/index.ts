export { eventMetrics } from './event-metrics.js'
