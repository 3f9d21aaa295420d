import { type Attempt, retry } from '../call/index.js'
import { type Classifier, extendPolicy, type PolicyInput, policies } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import { fanOut, type Sink } from '../telemetry/index.js'
import { type Clock, systemClock } from '../time/index.js'
import { type DeadLetterEntry, deadLetterEntry } from './dead-letter-entry.js'
import { DeadLetterError, EventExhaustedError } from './errors.js'
import { EventSpans } from './event-spans.js'
import { EventWatch } from './event-watch.js'
import { eventWork } from './event-work.js'

/** Options of `handleEvent`. @inline */
export interface HandleEventOptions {
  /** The name of the service, as dead letters and metrics show it. */
  readonly service: string
  /** The event's idempotency key: see `eventKey`. */
  readonly key: string
  /** Overrides `policies.event`, field by field: eight attempts within half an hour. */
  readonly policy?: PolicyInput | undefined
  /** Writes the dead letter. Once it resolves, the event can be acknowledged. */
  readonly deadLetter?: ((entry: DeadLetterEntry) => unknown) | undefined
  /** The `traceparent` header of the message that brought the event, for traces. Default: the span that is active. */
  readonly traceparent?: string | undefined
  /** Code that corrects the verdict on a failure. */
  readonly classify?: Classifier | undefined
  /** Stops waiting and retrying. An aborted event is no dead letter: let the bus deliver it again. */
  readonly signal?: AbortSignal | undefined
  /** Receives the work events. */
  readonly sink?: Sink | undefined
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock | undefined
  /** The source of randomness for jitter. Default: derived from the key and the attempt's number. */
  readonly random?: (() => number) | undefined
}

const HANDLE_OPTIONS: KnownOptions<HandleEventOptions> = {
  service: '',
  key: '',
  policy: 'object',
  deadLetter: 'function',
  traceparent: '',
  classify: 'function',
  signal: 'object',
  sink: 'function',
  clock: 'object',
  random: 'function',
}

/** Handles an event. Each attempt gets a copy of the event as it was delivered. */
export type EventHandler<Event, Result = unknown> = (event: Event, attempt: Attempt) => Result | PromiseLike<Result>

/**
 * Handles an event: calls the handler until it succeeds or the policy gives up, and then writes a dead letter.
 *
 * ```ts
 * await handleEvent(storeChunks, event, {
 *   service: 'chunking',
 *   key: eventKey('chunking', event.message_ids),
 *   deadLetter: entry => failedQueue.send(entry),
 * })
 * ```
 *
 * Rejects with the failure itself when that is not to be retried, with an `EventExhaustedError` that has the dead
 * letter on it when the policy gives up, and with a `DeadLetterError` when the dead letter could not be written.
 */
export async function handleEvent<Event, Result>(
  handler: EventHandler<Event, Result>,
  event: Event,
  options: HandleEventOptions,
): Promise<Result> {
  checkOptions('handleEvent()', options, HANDLE_OPTIONS)
  const { service, key, policy = {}, classify, signal, clock = systemClock, random } = options
  // Copy the event, so that a handler's changes to it show neither in the next attempt nor in the dead letter.
  const original = structuredClone(event)
  const watch = new EventWatch(service, key, clock, options.sink)
  // Outside the `try`: a policy that is invalid is no failure of the event.
  const effective = extendPolicy(policies.event, policy)
  const spans = new EventSpans(eventWork(service, key, key), effective.attempts, options.traceparent)
  try {
    const run = (attempt: Attempt) => spans.run(attempt.attempt, () => handler(structuredClone(original), attempt))
    const sink = fanOut(watch.sink, spans.sink)
    const call = { id: key, name: service, classify, signal, clock, random, sink }
    return await retry(run, effective, call)
  } catch (error) {
    if (signal?.aborted) throw error
    const { failure, reason, attempts } = watch.end(error)
    const entry = deadLetterEntry({ event: original, key, service, attempts, failure, reason, at: clock.now() })
    try {
      await options.deadLetter?.(entry)
    } catch (cause) {
      throw new DeadLetterError(entry, { cause })
    }
    throw reason === 'final_error' ? error : new EventExhaustedError(entry, { cause: failure })
  }
}
