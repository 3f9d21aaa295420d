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
  readonly context: SpanContext
  readonly traceId: string | undefined

  /** May throw, as the SDK may: nothing is asked of the span later that the work depends on. */
  constructor(api: Api, span: Span) {
    this.#api = api
    this.#span = span
    this.context = span.spanContext()
    const { traceId, traceFlags } = this.context
    this.traceId = (traceFlags & api.TraceFlags.SAMPLED) === 0 ? undefined : traceId
  }

  run<T>(work: () => T): T {
    const { context, trace, ROOT_CONTEXT } = this.#api
    let ended: (() => T) | undefined
    quietly(() =>
      context.with(trace.setSpan(ROOT_CONTEXT, this.#span), () => {
        ended = endOf(work)
      }),
    )
    // If the SDK has not called it, it runs untraced.
    return (ended ?? work)()
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

/** Calls a function, and returns one that ends in the same way: a failure of the work is none of the SDK. */
function endOf<T>(work: () => T): () => T {
  try {
    const result = work()
    return () => result
  } catch (failure) {
    return () => {
      throw failure
    }
  }
}
