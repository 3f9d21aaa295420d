import type * as promClient from 'prom-client'
import type { Sink } from '../telemetry/index.js'
import type { CollectionSwept } from '../telemetry/internal.js'
import { loadPromClient, type MetricsRegistry } from './prom-client.js'

/** From an empty sweep to one over a million documents. */
const DURATION_SECONDS = [0.05, 0.25, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]
const ERROR_TYPES = ['publish_error', 'collection_error', 'document_error', 'job_error'] as const

/** Options of `documentMetrics`. @inline */
export interface DocumentMetricsOptions {
  /** The collections that are swept: their series exist from the start, at 0, so that no first increase is missed. */
  readonly collections: readonly string[]
  /** The registry for the metrics. Default: prom-client's own registry. */
  readonly registry?: MetricsRegistry | undefined
  /** The names of the metrics. Default: `redrive_…`. A preset provides the names of another system. */
  readonly names?: Partial<DocumentMetricNames> | undefined
}

/** The names of the metrics that `documentMetrics` makes. */
export interface DocumentMetricNames {
  /** Counter of requeued documents, by `collection`. Default `redrive_documents_requeued_total`. */
  readonly requeued: string
  /** Counter of documents in backoff, by `collection`. Default `redrive_documents_skipped_backoff_total`. */
  readonly skipped: string
  /** Counter of documents marked as failed, by `collection`. Default `redrive_documents_max_retries_exceeded_total`. */
  readonly exhausted: string
  /** Counter of sweeps, by `status`: success or failure. Default `redrive_sweeps_total`. */
  readonly runs: string
  /** Counter of errors, by `error_type`. Default `redrive_sweep_errors_total`. */
  readonly errors: string
  /** Gauge of stuck documents, by `collection`. Default `redrive_documents_stuck`. */
  readonly stuck: string
  /** Gauge of failed documents, by `collection`. Default `redrive_documents_failed`. */
  readonly failed: string
  /** Histogram of the time of a sweep. Default `redrive_sweep_duration_seconds`. */
  readonly duration: string
}

/**
 * Creates a sink that counts sweeps over documents for Prometheus. Make one per registry.
 *
 * ```ts
 * const sink = await documentMetrics({ collections: ['archives'] })
 * sweeper({ source, bus, collections: [archives], sink }).start()
 * ```
 */
export async function documentMetrics(options: DocumentMetricsOptions): Promise<Sink> {
  const { collections, registry, names } = options
  const client = await loadPromClient()
  const metrics = metricsIn(client, registry ?? client.register, { ...NAMES, ...names })
  startAtZero(metrics, collections)
  return function documentMetricsSink(event) {
    switch (event.type) {
      case 'swept':
        return metrics.requeued.inc({ collection: event.work.name })
      case 'superseded':
        return metrics.superseded.inc({ collection: event.work.name })
      case 'collection_swept':
        return count(metrics, event)
      case 'sweep_ended':
        if (event.isDryRun) return
        metrics.runs.inc({ status: event.failure === undefined ? 'success' : 'failure' })
        if (event.failure !== undefined) metrics.errors.inc({ error_type: 'job_error' })
        return metrics.duration.observe(event.durationMs / 1000)
      case 'coverage_checked':
        if (event.failure !== undefined) return metrics.errors.inc({ error_type: 'collection_error' })
        return metrics.missing.set({ from: event.from, unless: event.unless }, event.missing)
      default: // Other events are not counted.
        return
    }
  }
}

const NAMES: DocumentMetricNames = {
  requeued: 'redrive_documents_requeued_total',
  skipped: 'redrive_documents_skipped_backoff_total',
  exhausted: 'redrive_documents_max_retries_exceeded_total',
  runs: 'redrive_sweeps_total',
  errors: 'redrive_sweep_errors_total',
  stuck: 'redrive_documents_stuck',
  failed: 'redrive_documents_failed',
  duration: 'redrive_sweep_duration_seconds',
}

type Metrics = ReturnType<typeof metricsIn>

function metricsIn(
  { Counter, Gauge, Histogram }: typeof promClient,
  registry: MetricsRegistry,
  names: DocumentMetricNames,
) {
  const registers = [registry]
  const counter = <Label extends string>(name: string, help: string, label: Label) =>
    new Counter({ name, help, labelNames: [label], registers })
  const gauge = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge({ name, help, labelNames, registers })
  return {
    requeued: counter(names.requeued, 'Documents that were requeued.', 'collection'),
    skipped: counter(names.skipped, 'Documents left alone because their backoff was not over.', 'collection'),
    exhausted: counter(names.exhausted, 'Documents that were marked as failed.', 'collection'),
    superseded: counter(
      'redrive_documents_superseded_total',
      'Events that were acknowledged without work, because a later one had replaced them.',
      'collection',
    ),
    runs: counter(names.runs, 'Sweeps, by status.', 'status'),
    errors: counter(names.errors, 'Errors of sweeps, by type.', 'error_type'),
    stuck: gauge(names.stuck, 'Stuck documents, those in backoff included.', 'collection'),
    failed: gauge(names.failed, 'Documents that are marked as failed.', 'collection'),
    oldest: gauge(
      'redrive_documents_oldest_stuck_seconds',
      'Age of the oldest stuck document: since its creation, or its last attempt if that is not known.',
      'collection',
    ),
    missing: gauge(
      'redrive_documents_missing',
      'Documents that should have a derived document and have none.',
      'from',
      'unless',
    ),
    duration: new Histogram({
      name: names.duration,
      help: 'Duration of a sweep.',
      buckets: DURATION_SECONDS,
      registers,
    }),
  }
}

/** Prometheus sees no increase in a counter that appears with its first value. */
function startAtZero(metrics: Metrics, collections: readonly string[]): void {
  const { requeued, skipped, exhausted, superseded, stuck, failed, oldest, runs, errors } = metrics
  for (const collection of collections) {
    for (const counter of [requeued, skipped, exhausted, superseded]) counter.inc({ collection }, 0)
    for (const gauge of [stuck, failed, oldest]) gauge.set({ collection }, 0)
  }
  for (const status of ['success', 'failure']) runs.inc({ status }, 0)
  for (const error_type of ERROR_TYPES) errors.inc({ error_type }, 0)
}

function count(metrics: Metrics, { report, isDryRun }: CollectionSwept): void {
  const { collection, failure, oldestAgeMs = 0 } = report
  if (failure === undefined) {
    metrics.stuck.set({ collection }, report.stuck)
    metrics.failed.set({ collection }, report.failed)
    metrics.oldest.set({ collection }, oldestAgeMs / 1000)
  } else {
    // A gauge keeps its last value while its collection cannot be read: a 0 would resolve alerts.
    metrics.errors.inc({ error_type: 'collection_error' })
  }
  if (isDryRun) return
  metrics.skipped.inc({ collection }, report.skipped)
  metrics.exhausted.inc({ collection }, report.exhausted)
  metrics.errors.inc({ error_type: 'publish_error' }, report.publishErrors)
  metrics.errors.inc({ error_type: 'document_error' }, report.documentErrors)
}
