export { type EventMetricNames, type EventMetricsOptions, eventMetrics } from './event-metrics.js'
