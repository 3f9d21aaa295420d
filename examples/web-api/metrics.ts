import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { CircuitBreaker, Sink } from 'redrive'
import { on } from 'redrive/telemetry'

/** The metrics of the API, and the sink that counts its calls in them. */
export interface CallMetrics {
  readonly registry: Registry
  readonly sink: Sink
  /** Shows the state of a breaker as a gauge. */
  watch(breaker: CircuitBreaker): void
}

/** Makes metrics for calls, by the name of the call. */
export function callMetrics(): CallMetrics {
  const registry = new Registry()
  const registers = [registry]
  const duration = new Histogram({
    name: 'call_attempt_duration_seconds',
    help: 'Duration of attempts that ended with an answer or an error.',
    labelNames: ['call', 'outcome'],
    registers,
  })
  const gaveUp = new Counter({
    name: 'call_gave_up_total',
    help: 'Calls that failed, by reason.',
    labelNames: ['call', 'reason'],
    registers,
  })
  const open = new Gauge({
    name: 'breaker_open',
    help: '1 while the breaker is open.',
    labelNames: ['breaker'],
    registers,
  })
  const sink = on({
    attempt_succeeded: ({ work, durationMs }) =>
      duration.observe({ call: work.name, outcome: 'succeeded' }, durationMs / 1000),
    retry_scheduled: ({ work, durationMs }) =>
      duration.observe({ call: work.name, outcome: 'retry' }, durationMs / 1000),
    gave_up: ({ work, reason }) => gaveUp.inc({ call: work.name, reason }),
  })
  return {
    registry,
    sink,
    watch(breaker) {
      open.set({ breaker: breaker.name }, 0)
      breaker.onChange(({ to }) => open.set({ breaker: breaker.name }, to === 'open' ? 1 : 0))
    },
  }
}
