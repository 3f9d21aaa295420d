import type * as promClient from 'prom-client'
import type { Verdict } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import { errorType, type GaveUp, type Sink, type Work } from '../telemetry/index.js'
import type { RetryScheduled } from '../telemetry/internal.js'
import { kindOf, LabelSets, type WorkLabels } from './label-sets.js'
import { loadPromClient, type MetricsRegistry } from './prom-client.js'
import { type Watched, watch } from './watched.js'

/** From a query to a document that a language model reads. */
const DURATION_SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800]

/** The reasons that work of a store is dead for. */
const DEAD_REASONS = [
  'attempts_exhausted',
  'final_error',
  'losses_exhausted',
  'ttl_expired',
] as const satisfies readonly GaveUp['reason'][]

/** Options of `workMetrics`. @inline */
export interface WorkMetricsOptions extends Watched {
  /** The registry for the metrics. Default: prom-client's own registry. */
  readonly registry?: MetricsRegistry | undefined
}

const WORK_METRICS_OPTIONS: KnownOptions<WorkMetricsOptions> = {
  registry: 'object',
  breakers: 'object',
  bulkheads: 'object',
  sinks: 'object',
}

/**
 * Creates a sink that counts calls, tasks, events and items of pipelines for Prometheus. Make one per registry, and
 * share it among everything that runs in the process.
 *
 * ```ts
 * const sink = await workMetrics()
 * new Worker(store, { tasks: [sendEmail], sink })
 * ```
 */
export async function workMetrics(options: WorkMetricsOptions = {}): Promise<Sink> {
  checkOptions('workMetrics()', options, WORK_METRICS_OPTIONS)
  const client = await loadPromClient()
  const registry = options.registry ?? client.register
  const metrics = metricsIn(client, registry)
  watch(client, registry, options)
  for (const end of SLOT_ENDS) metrics.slots.inc({ end }, 0)
  const labelSets = new LabelSets()

  return function workMetricsSink(event) {
    if (event.type === 'lease_lost') return metrics.leaseLosses.inc()
    if (event.type === 'slot_ended') return metrics.slots.inc({ end: event.end })
    const named = kindOf(event.work)
    if (named === undefined) return
    const labels = labelSets.of(...named, labels => startAtZero(metrics, labels, event.work.kind))
    switch (event.type) {
      case 'attempt_succeeded':
      case 'skipped':
        metrics.attempts.inc({ ...labels, outcome: event.type === 'skipped' ? 'skipped' : 'succeeded' })
        return metrics.duration.observe({ ...labels }, event.durationMs / 1000)
      case 'timed_out':
        return metrics.timeouts.inc({ ...labels })
      case 'overrun_began':
        return metrics.overrunning.inc({ ...labels })
      case 'overrun_ended':
        return metrics.overrunning.dec({ ...labels })
      case 'abandoned':
        metrics.overrunning.dec({ ...labels })
        return metrics.abandoned.inc({ ...labels })
      case 'retry_scheduled':
      case 'deferred':
        return failed(metrics, labels, event)
      case 'gave_up':
        return gaveUp(metrics, labels, event)
      default: // Other work events are not counted.
        return
    }
  }
}

const SLOT_ENDS = ['ran', 'skipped', 'missed', 'overlapped'] as const

type Metrics = ReturnType<typeof metricsIn>

function metricsIn({ Counter, Gauge, Histogram }: typeof promClient, registry: MetricsRegistry) {
  const registers = [registry]
  const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter({ name, help, labelNames: ['kind', 'category', ...labelNames], registers })
  return {
    attempts: counter('redrive_attempts_total', 'Attempts that ended, by outcome.', 'outcome'),
    failures: counter('redrive_failures_total', 'Failed attempts, by code and by decision.', 'code', 'decision'),
    deadLetters: counter('redrive_dead_letters_total', 'Dead letters, by reason.', 'reason'),
    givenUp: counter('redrive_calls_given_up_total', 'Calls that were given up, by reason.', 'reason'),
    timeouts: counter('redrive_timeouts_total', 'Attempts that exceeded their timeout.'),
    overrunning: new Gauge({
      name: 'redrive_handlers_overrunning',
      help: 'Handlers that go on although their attempt timed out or was cancelled. They keep their slots.',
      labelNames: ['kind', 'category'],
      registers,
    }),
    abandoned: counter(
      'redrive_handlers_abandoned_total',
      'Handlers that went on for so long that their slots were freed.',
    ),
    losses: counter('redrive_losses_total', 'Attempts whose worker died.'),
    duration: new Histogram({
      name: 'redrive_attempt_duration_seconds',
      help: 'Duration of an attempt.',
      labelNames: ['kind', 'category'],
      buckets: DURATION_SECONDS,
      registers,
    }),
    slots: new Counter({
      name: 'redrive_slots_total',
      help: 'Slots of schedules that ended, by how.',
      labelNames: ['end'],
      registers,
    }),
    leaseLosses: new Counter({
      name: 'redrive_lease_losses_total',
      help: 'How often a worker could not renew its lease in time.',
      registers,
    }),
  }
}

/** Prometheus sees no increase in a counter that appears with its first value. */
function startAtZero(metrics: Metrics, labels: WorkLabels, kind: Work['kind']): void {
  metrics.attempts.inc({ ...labels, outcome: 'succeeded' }, 0)
  metrics.timeouts.inc({ ...labels }, 0)
  if (labels.kind === 'call') return
  metrics.overrunning.inc({ ...labels }, 0)
  metrics.abandoned.inc({ ...labels }, 0)
  // A step is neither lost nor dead by itself: its task is.
  if (kind === 'step') return
  metrics.losses.inc({ ...labels }, 0)
  for (const reason of DEAD_REASONS) metrics.deadLetters.inc({ ...labels, reason }, 0)
}

function failed(metrics: Metrics, labels: WorkLabels, event: RetryScheduled | GaveUp): void {
  const { verdict, type, durationMs } = event
  const decision = type === 'gave_up' ? 'give_up' : type === 'deferred' ? 'defer' : 'retry'
  const code = codeClass(verdict)
  metrics.failures.inc({ ...labels, code, decision })
  // A lost attempt ended when its worker died, and nobody knows how long it took.
  if (code === 'lost') return metrics.losses.inc({ ...labels })
  metrics.attempts.inc({ ...labels, outcome: code === 'rate_limited' ? 'rate_limited' : 'failed' })
  metrics.duration.observe({ ...labels }, durationMs / 1000)
}

function gaveUp(metrics: Metrics, labels: WorkLabels, event: GaveUp): void {
  const { reason } = event
  if (labels.kind === 'call') metrics.givenUp.inc({ ...labels, reason })
  // An aborted event has not ended: it will be delivered again. Of a step that is given up, its task dies.
  else if (reason !== 'aborted' && event.work.kind !== 'step') metrics.deadLetters.inc({ ...labels, reason })
  if (wasAttempted(event)) failed(metrics, labels, event)
}

/** Whether an attempt failed. Work may also be refused before its next attempt, and then the reason is all there is to say. */
function wasAttempted({ verdict, reason }: GaveUp): boolean {
  return verdict.code !== reason
}

/** A class of codes: few values, whatever codes services and users invent. */
type CodeClass = 'http_4xx' | 'http_5xx' | 'rate_limited' | 'timeout' | 'network' | 'lost' | 'other'

/** The class of a verdict's code, as a label. */
function codeClass(verdict: Verdict): CodeClass {
  if (verdict.code === 'lost') return 'lost'
  switch (errorType(verdict)) {
    case 'rate_limit':
      return 'rate_limited'
    case 'timeout':
      return 'timeout'
    case 'server_error':
      return 'http_5xx'
    case 'network_error':
      return 'network'
    case 'unknown':
      return /^http_4\d\d$/.test(verdict.code) ? 'http_4xx' : 'other'
  }
}
