import type { Work } from '../telemetry/index.js'

/** Traces work. There is none until `redrive/otel` brings one, and then nothing is traced and nothing is paid for it. */
export interface Tracer {
  /** The span that is active now, as a `traceparent`; `undefined` if there is none. */
  active(): string | undefined
  /** Begins the span of an attempt; `undefined` if that failed. It never throws. */
  begin(attempt: TracedAttempt): AttemptSpan | undefined
  /** Begins the span of a call that several attempts share. It links to their spans. */
  beginCall(name: string, attempts: readonly AttemptSpan[]): AttemptSpan | undefined
}

/** An attempt as its span shows it. */
export interface TracedAttempt {
  readonly work: Work
  /** The number of the attempt, from 1. */
  readonly attempt: number
  /** The attempts that the policy allows. */
  readonly maxAttempts: number
  /** The span that the work came from, as a `traceparent`. */
  readonly traceparent: string | undefined
  /** The span is a child of that one. Otherwise it begins a trace of its own, which links to it. */
  readonly isFirst: boolean
}

/** The end of a span. */
export interface SpanEnd {
  /** The outcome of the work. */
  readonly outcome: string
  /** Why it was given up or skipped. */
  readonly reason?: string | undefined
  /** The delay until the next attempt. */
  readonly delayMs?: number | undefined
  /** The failure of the attempt. Not redacted. */
  readonly failed?: { readonly failure: unknown; readonly code: string } | undefined
}

/** A span that has begun. */
export interface AttemptSpan {
  /** The id of its trace; `undefined` if the trace is not recorded. */
  readonly traceId: string | undefined
  /** Calls a function while the span is active. */
  run<T>(work: () => T): T
  end(end: SpanEnd): void
}

let tracer: Tracer | undefined

/** Traces all work of this process from now on. Returns a function that ends it. */
export function traceWith(next: Tracer): () => void {
  tracer = next
  return () => {
    if (tracer === next) tracer = undefined
  }
}

/** The tracer of this process, if it has one. */
export function currentTracer(): Tracer | undefined {
  return tracer
}

/** The span that is active now, as a `traceparent`, for work that is handed in. */
export function activeTraceparent(): string | undefined {
  return tracer?.active()
}
