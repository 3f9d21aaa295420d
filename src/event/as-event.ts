import type { Sink, Work, WorkEvent } from '../telemetry/index.js'
import { emit } from '../telemetry/internal.js'
import type { Clock } from '../time/index.js'

/** What is known of an event that a call is about to handle. */
interface Handled {
  readonly service: string
  readonly key: string
  readonly clock: Clock
}

/** A sink that is told of an event, and how long it took in all, where the call that handles it would tell of itself. */
export function asEvent(sink: Sink, { service, key, clock }: Handled): Sink {
  const startedAt = clock.monotonic()
  return function eventSink(event: WorkEvent) {
    const work: Work = { ...event.work, kind: 'event', name: service, idempotencyKey: key }
    const isSuccess = event.type === 'attempt_succeeded'
    emit(sink, isSuccess ? { ...event, work, totalMs: clock.monotonic() - startedAt } : { ...event, work })
  }
}
