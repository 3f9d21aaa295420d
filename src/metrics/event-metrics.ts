import type { Sink } from '../telemetry/index.js'
import { REASON_LABELS, reasonLabel } from '../telemetry/internal.js'
import { loadPromClient, type MetricsRegistry } from './prom-client.js'

/** Buckets from an event that succeeds at once to one that uses its whole time to live. */
const LATENCY_SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]
const ATTEMPTS = [1, 2, 3, 4, 5, 6, 7, 8, 10, 15, 20, 50, 100]

/** Attempts beyond this share one label value, however many a policy allows. */
const MAX_ATTEMPT_LABEL = 100

/** Options of `eventMetrics`. @inline */
export interface EventMetricsOptions {
  /** The registry for the metrics. Default: prom-client's own registry. */
  readonly registry?: MetricsRegistry | undefined
  /** The names of the metrics. Default: `redrive_event_…`. A preset provides the names of another system. */
  readonly names?: Partial<EventMetricNames> | undefined
}

/** The names of the metrics that `eventMetrics` makes. */
export interface EventMetricNames {
  /** Counter of events that succeeded. Default `redrive_event_successes_total`. */
  readonly successes: string
  /** Histogram of the time to success. Default `redrive_event_latency_seconds`. */
  readonly latency: string
  /** Counter of dead letters. Default `redrive_event_dead_letters_total`. */
  readonly deadLetters: string
  /** Histogram of the attempts of events that ended. Default `redrive_event_attempts`. */
  readonly attempts: string
}

/**
 * Creates a sink that counts events for Prometheus: those that succeeded, at which attempt and after how long, and
 * those that became dead letters. Make one per registry and share it among all consumers.
 *
 * ```ts
 * const sink = await eventMetrics()
 * await consume(bus, 'chunking', { service: 'chunking', sink, key, store, handler })
 * ```
 */
export async function eventMetrics({ registry, names = {} }: EventMetricsOptions = {}): Promise<Sink> {
  const { Counter, Histogram, register } = await loadPromClient()
  const registers = [registry ?? register]
  const successes = new Counter({
    name: names.successes ?? 'redrive_event_successes_total',
    help: 'Events that succeeded, by attempt.',
    labelNames: ['service', 'attempt'],
    registers,
  })
  const latency = new Histogram({
    name: names.latency ?? 'redrive_event_latency_seconds',
    help: 'Time from the first attempt at an event to its success, waits included.',
    labelNames: ['service'],
    buckets: LATENCY_SECONDS,
    registers,
  })
  const deadLetters = new Counter({
    name: names.deadLetters ?? 'redrive_event_dead_letters_total',
    help: 'Events that became dead letters, by reason.',
    labelNames: ['service', 'reason'],
    registers,
  })
  const attempts = new Histogram({
    name: names.attempts ?? 'redrive_event_attempts',
    help: 'Attempts per event that succeeded or became a dead letter.',
    labelNames: ['service'],
    buckets: ATTEMPTS,
    registers,
  })

  return function eventMetricsSink(event) {
    if (event.work.kind !== 'event') return
    const service = event.work.name
    switch (event.type) {
      case 'attempt_started':
        // Start at 0: Prometheus sees no increase in a counter that appears with its first dead letter.
        for (const reason of REASON_LABELS) deadLetters.inc({ service, reason }, 0)
        return
      case 'attempt_succeeded':
        successes.inc({ service, attempt: attemptLabel(event.attempt) })
        if (event.totalMs !== undefined) latency.observe({ service }, event.totalMs / 1000)
        return attempts.observe({ service }, event.attempt)
      case 'gave_up':
        // An aborted event has not ended: it will be delivered again.
        if (event.reason === 'aborted') return
        deadLetters.inc({ service, reason: reasonLabel(event.reason) })
        return attempts.observe({ service }, event.attempt)
    }
  }
}

function attemptLabel(attempt: number): string {
  return attempt > MAX_ATTEMPT_LABEL ? `over ${MAX_ATTEMPT_LABEL}` : String(attempt)
}
