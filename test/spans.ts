import { context, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  type Sampler,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { traceWork } from '../src/otel/index.js'

/** OpenTelemetry's SDK with an exporter in memory, and the tracing of work, until `stop` is called. */
export async function startTracing(options: { readonly sampler?: Sampler } = {}) {
  const exporter = new InMemorySpanExporter()
  const provider = new BasicTracerProvider({ ...options, spanProcessors: [new SimpleSpanProcessor(exporter)] })
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  trace.setGlobalTracerProvider(provider)
  const untrace = await traceWork()
  return {
    /** The spans that have ended, oldest first, by name or all. */
    spans: (name?: string): ReadableSpan[] =>
      exporter.getFinishedSpans().filter(span => name === undefined || span.name === name),
    /** Calls a function within a span, and returns the span with its result. */
    within: <T>(name: string, work: () => Promise<T>) =>
      trace.getTracer('test').startActiveSpan(name, async span => {
        try {
          return { result: await work(), span: span.spanContext() }
        } finally {
          span.end()
        }
      }),
    async stop() {
      untrace()
      await provider.shutdown()
      trace.disable()
      context.disable()
    },
  }
}

/** Ends whatever tracing somebody has left in this process: other tests would be traced, and their own provider ignored. */
export async function forgetTracing(): Promise<void> {
  const untrace = await traceWork()
  untrace()
  trace.disable()
  context.disable()
}

/** The trace of a span, its parent, and the spans that it links to. */
export function placeOf(span: ReadableSpan | undefined) {
  return {
    traceId: span?.spanContext().traceId,
    parent: span?.parentSpanContext?.spanId,
    links: span?.links.map(link => link.context.spanId),
  }
}
