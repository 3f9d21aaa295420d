import type { Span, SpanContext } from '@opentelemetry/api'
import type { AttemptSpan, SpanEnd } from '../attempt/index.js'
import { describeFailure } from '../telemetry/index.js'
import type { Api } from './api.js'
import { endAttributes } from './attributes.js'
import { quietly } from './quietly.js'

/** The span of one attempt. */
export class WorkSpan implements AttemptSpan {
  readonly #api: Api
  readonly #span: Span

  constructor(api: Api, span: Span) {
    this.#api = api
    this.#span = span
  }

  get context(): SpanContext {
    return this.#span.spanContext()
  }

  get traceId(): string | undefined {
    const { traceId, traceFlags } = this.context
    return (traceFlags & this.#api.TraceFlags.SAMPLED) === 0 ? undefined : traceId
  }

  run<T>(work: () => T): T {
    const { context, trace, ROOT_CONTEXT } = this.#api
    return context.with(trace.setSpan(ROOT_CONTEXT, this.#span), work)
  }

  end(end: SpanEnd): void {
    quietly(() => {
      this.#span.setAttributes(endAttributes(end))
      if (end.failed !== undefined) this.#failed(end.failed.failure)
      this.#span.end()
    })
  }

  /** As the ledger has it: bounded and redacted. */
  #failed(failure: unknown): void {
    const { name, message } = describeFailure(failure)
    this.#span.recordException({ name, message })
    this.#span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message })
  }
}
