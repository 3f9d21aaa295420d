import type { Attributes } from '@opentelemetry/api'
import type { Sink, WorkEvent } from '../telemetry/index.js'
import { describeFailure } from '../telemetry/index.js'
import type { AttemptEvent } from '../telemetry/internal.js'
import { loadApi } from './api.js'
import { defined } from './attributes.js'

/**
 * Creates a sink that adds the failed attempts of calls, and their retries, to the active span, as events.
 *
 * ```ts
 * const sink = await spanEvents()
 * await retry(charge, policy, { name: 'charge', sink })
 * ```
 *
 * Calls that succeed at once add nothing.
 */
export async function spanEvents(): Promise<Sink> {
  const { trace } = await loadApi()
  return event => {
    const span = isOfInterest(event) ? trace.getActiveSpan() : undefined
    if (span?.isRecording()) span.addEvent(`redrive.${event.type}`, eventAttributes(event))
  }
}

/** A first attempt that succeeds is no news. */
function isOfInterest(event: WorkEvent): boolean {
  if (event.work.kind !== 'call' || event.type === 'attempt_started') return false
  return event.type !== 'attempt_succeeded' || event.attempt > 1
}

function eventAttributes(event: WorkEvent): Attributes {
  const isAttempt = 'attempt' in event
  return defined({
    'redrive.call': event.work.name,
    'redrive.attempt': isAttempt ? event.attempt : undefined,
    'redrive.delay_ms': 'delayMs' in event ? event.delayMs : undefined,
    'redrive.reason': 'reason' in event ? event.reason : undefined,
    ...('verdict' in event && failureAttributes(event)),
  })
}

function failureAttributes({ verdict, failure }: Extract<AttemptEvent, { readonly verdict: unknown }>): Attributes {
  const { name, message } = describeFailure(failure)
  return { 'error.type': verdict.code, 'exception.type': name, 'exception.message': message }
}
