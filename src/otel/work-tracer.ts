import type {
  Attributes,
  Context,
  Link,
  Span,
  SpanContext,
  SpanKind,
  SpanOptions,
  TracerProvider,
} from '@opentelemetry/api'
import type { AttemptSpan, TracedAttempt, Tracer } from '../attempt/index.js'
import type { Api } from './api.js'
import { attemptAttributes, callAttributes } from './attributes.js'
import { quietly } from './quietly.js'
import { WorkSpan } from './work-span.js'

/** The version of this package, as a constant: in a bundle, no package.json of ours lies beside the code. */
const VERSION = '0.1.0'

/** The name and the kind of a span. */
interface SpanAbout {
  readonly name: string
  readonly kind: SpanKind
}

/** Makes spans of attempts, by the semantic conventions for messaging. */
export class WorkTracer implements Tracer {
  readonly #api: Api
  readonly #provider: Pick<TracerProvider, 'getTracer'>

  constructor(api: Api, provider: Pick<TracerProvider, 'getTracer'>) {
    this.#api = api
    this.#provider = provider
  }

  active(): string | undefined {
    return quietly(() => this.#active())
  }

  begin(attempt: TracedAttempt): AttemptSpan | undefined {
    return quietly(() => this.#begin(attempt))
  }

  beginCall(name: string, attempts: readonly AttemptSpan[]): AttemptSpan | undefined {
    const links = attempts.flatMap(span => (span instanceof WorkSpan ? { context: span.context } : []))
    return quietly(() =>
      this.#start(
        { name: `process ${name}`, kind: this.#api.SpanKind.CONSUMER },
        callAttributes(name, attempts.length),
        links,
      ),
    )
  }

  #active(): string | undefined {
    const { trace, isSpanContextValid } = this.#api
    const span = trace.getActiveSpan()?.spanContext()
    if (span === undefined || !isSpanContextValid(span)) return undefined
    return `00-${span.traceId}-${span.spanId}-0${span.traceFlags & 1}`
  }

  #begin(attempt: TracedAttempt): AttemptSpan {
    const { work, isFirst, traceparent } = attempt
    const { CONSUMER, INTERNAL } = this.#api.SpanKind
    // A step is a part of its handler, and no message.
    const about =
      work.step === undefined
        ? { name: `process ${work.name}`, kind: CONSUMER }
        : { name: `step ${work.step}`, kind: INTERNAL }
    const from = traceparent === undefined ? undefined : spanContextOf(traceparent)
    const attributes = attemptAttributes(attempt)
    if (from === undefined) return this.#start(about, attributes, [])
    if (!isFirst) return this.#start(about, attributes, [{ context: from }])
    const { trace, ROOT_CONTEXT } = this.#api
    return this.#start(about, attributes, [], trace.setSpanContext(ROOT_CONTEXT, from))
  }

  /** Never in the context that happens to be active: that is the one in which the worker was started, or another task's. */
  #start({ name, kind }: SpanAbout, attributes: Attributes, links: Link[], parent?: Context): WorkSpan {
    const { ROOT_CONTEXT } = this.#api
    const options: SpanOptions = { kind, attributes, links, root: parent === undefined }
    // Asked for each time, as the SDK may be started later. Providers keep their tracers by name.
    const tracer = this.#provider.getTracer('redrive', VERSION)
    const span: Span = tracer.startSpan(name, options, parent ?? ROOT_CONTEXT)
    return new WorkSpan(this.#api, span)
  }
}

/** Marked as remote, so that a sampler can tell that the decision of its parent was made elsewhere. */
function spanContextOf(traceparent: string): SpanContext {
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-')
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
}
