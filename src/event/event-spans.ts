import { type AttemptSpan, activeTraceparent, currentTracer } from '../attempt/index.js'
import type { Sink, Work, WorkEvent } from '../telemetry/index.js'
import { readTraceparent } from '../telemetry/internal.js'

/** The spans of the attempts that `handleEvent` makes, one after another. */
export class EventSpans {
  readonly #work: Work
  readonly #maxAttempts: number
  readonly #traceparent: string | undefined
  #isFirst = true
  #span: AttemptSpan | undefined

  constructor(work: Work, maxAttempts: number, traceparent: string | undefined) {
    this.#work = work
    this.#maxAttempts = maxAttempts
    this.#traceparent = readTraceparent(traceparent) ?? activeTraceparent()
  }

  /** Calls the handler in a span of its own, if this process is traced. */
  run<T>(attempt: number, handler: () => T): T {
    const about = { attempt, maxAttempts: this.#maxAttempts, traceparent: this.#traceparent, isFirst: this.#isFirst }
    this.#isFirst = false
    this.#span = currentTracer()?.begin({ work: this.#work, ...about })
    return this.#span === undefined ? handler() : this.#span.run(handler)
  }

  /** Ends the span with the attempt. */
  readonly sink: Sink = (event: WorkEvent) => {
    if (event.type === 'attempt_succeeded') return this.#end({ outcome: 'succeeded' })
    if (event.type !== 'retry_scheduled' && event.type !== 'deferred' && event.type !== 'gave_up') return
    const failed = { failure: event.failure, code: event.verdict.code }
    if (event.type === 'gave_up') return this.#end({ outcome: 'dead', reason: event.reason, failed })
    this.#end({ outcome: event.type === 'deferred' ? 'deferred' : 'retry', delayMs: event.delayMs, failed })
  }

  #end(end: Parameters<AttemptSpan['end']>[0]): void {
    this.#span?.end(end)
    this.#span = undefined
  }
}
