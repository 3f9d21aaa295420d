import type { OpenMetricsContentType, PrometheusContentType, Registry } from 'prom-client'
import type { GaveUp, Sink } from '../telemetry/index.js'
import { loadPromClient } from './prom-client.js'

/** Why events become dead letters, as the label `reason` says it. Whatever else may end one is `other`. */
const REASONS: { readonly [R in GaveUp['reason']]?: string } = {
  attempts_exhausted: 'max_attempts',
  ttl_expired: 'ttl_exceeded',
  final_error: 'non_retryable',
}

/** From an event that succeeds at once to one that took its whole time to live. */
const LATENCY_SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]
const ATTEMPTS = [1, 2, 3, 4, 5, 6, 7, 8, 10, 15, 20, 50, 100]

/** Attempts beyond this share one value of the label, however many a policy allows. */
const MAX_ATTEMPT_LABEL = 100

/**
 * A sink that counts events for Prometheus: those that succeeded, at which attempt and after how long, and those that
 * became dead letters. Make one for a registry, which is prom-client's own by default, and give it to all consumers.
 *
 * ```ts
 * const sink = await eventMetrics()
 * await consume(bus, 'chunking', { service: 'chunking', sink, key, store, handler })
 * ```
 */
export async function eventMetrics(
  registry?: Registry<PrometheusContentType> | Registry<OpenMetricsContentType>,
): Promise<Sink> {
  const { Counter, Histogram, register } = await loadPromClient()
  const registers = [registry ?? register]
  const successes = new Counter({
    name: 'event_retry_success_total',
    help: 'Events that succeeded, by the attempt at which they did.',
    labelNames: ['service', 'attempt'],
    registers,
  })
  const latency = new Histogram({
    name: 'event_retry_latency_seconds',
    help: 'Time from the first attempt at an event to its success, waits included.',
    labelNames: ['service'],
    buckets: LATENCY_SECONDS,
    registers,
  })
  const deadLetters = new Counter({
    name: 'event_retry_dlq_total',
    help: 'Events that became dead letters, by the reason.',
    labelNames: ['service', 'reason'],
    registers,
  })
  const attempts = new Histogram({
    name: 'event_retry_attempt_count',
    help: 'Attempts of events that have ended, well or not.',
    labelNames: ['service'],
    buckets: ATTEMPTS,
    registers,
  })

  return function eventMetricsSink(event) {
    if (event.work.kind !== 'event') return
    const service = event.work.name
    switch (event.type) {
      case 'attempt_started':
        // To Prometheus, a counter that appears with its first dead letter has not increased.
        for (const reason of Object.values(REASONS)) deadLetters.inc({ service, reason }, 0)
        return
      case 'attempt_succeeded':
        successes.inc({ service, attempt: attemptLabel(event.attempt) })
        if (event.totalMs !== undefined) latency.observe({ service }, event.totalMs / 1000)
        return attempts.observe({ service }, event.attempt)
      case 'gave_up':
        // What was aborted has not ended: it is delivered again.
        if (event.reason === 'aborted') return
        deadLetters.inc({ service, reason: REASONS[event.reason] ?? 'other' })
        return attempts.observe({ service }, event.attempt)
    }
  }
}

function attemptLabel(attempt: number): string {
  return attempt > MAX_ATTEMPT_LABEL ? `over ${MAX_ATTEMPT_LABEL}` : String(attempt)
}
