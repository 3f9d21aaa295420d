export { type DocumentMetricNames, type DocumentMetricsOptions, documentMetrics } from './document-metrics.js'
export { type EventMetricNames, type EventMetricsOptions, eventMetrics } from './event-metrics.js'
export { type PushGateway, type PushGatewayOptions, pushGateway } from './push-gateway.js'
