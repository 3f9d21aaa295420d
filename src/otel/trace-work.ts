import type { TracerProvider } from '@opentelemetry/api'
import { traceWith } from '../attempt/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import { loadApi } from './api.js'
import { WorkTracer } from './work-tracer.js'

/** Options of `traceWork`. @inline */
export interface TraceOptions {
  /** Makes the spans. Default: the provider that the SDK has registered. */
  readonly tracerProvider?: TracerProvider | undefined
}

const TRACE_OPTIONS: KnownOptions<TraceOptions> = { tracerProvider: 'object' }

/**
 * Traces all tasks, events and items of this process with OpenTelemetry. Call it once, where you start the SDK.
 *
 * ```ts
 * new NodeSDK({ traceExporter }).start()
 * await traceWork()
 * ```
 *
 * The span that is active when work is enqueued or an event is published goes with it, as a `traceparent`. The first
 * attempt is a child of that span. Each attempt after it begins a trace of its own, with a link to that span. Resolves
 * with a function that ends the tracing.
 */
export async function traceWork(options: TraceOptions = {}): Promise<() => void> {
  checkOptions('traceWork()', options, TRACE_OPTIONS)
  const api = await loadApi()
  return traceWith(new WorkTracer(api, options.tracerProvider ?? api.trace))
}
