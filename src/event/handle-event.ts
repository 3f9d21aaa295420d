import { type Attempt, retry } from '../call/index.js'
import { type Classifier, extendPolicy, type PolicyInput, policies } from '../policy/index.js'
import type { Sink } from '../telemetry/index.js'
import { type Clock, systemClock } from '../time/index.js'
import { type DeadLetterEntry, deadLetterEntry } from './dead-letter-entry.js'
import { DeadLetterError, EventExhaustedError } from './errors.js'
import { EventWatch } from './event-watch.js'

/** Options of `handleEvent`. */
export interface HandleEventOptions {
  /** The name of the service, as dead letters and metrics show it. */
  readonly service: string
  /** The event's idempotency key: see `eventKey`. */
  readonly key: string
  /** Laid over `policies.event`: eight attempts within half an hour. */
  readonly policy?: PolicyInput
  /** Writes the dead letter. The event counts as dealt with once this has resolved. */
  readonly deadLetter?: (entry: DeadLetterEntry) => unknown
  /** Code that corrects the verdict on a failure. */
  readonly classify?: Classifier
  /** Stops waiting and trying. An event that was aborted is not a dead letter: it is to be delivered again. */
  readonly signal?: AbortSignal
  /** Takes the work events. */
  readonly sink?: Sink
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock
  /** Where jitter comes from. Default: the key and the number of the attempt. */
  readonly random?: () => number
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
 * Rejects with the failure itself when that is not to be retried, with an `EventExhaustedError` that has the dead letter
 * on it when the policy gives up, and with a `DeadLetterError` when the dead letter could not be written.
 */
export async function handleEvent<Event, Result>(
  handler: EventHandler<Event, Result>,
  event: Event,
  options: HandleEventOptions,
): Promise<Result> {
  const { service, key, policy = {}, classify, signal, clock = systemClock, random } = options
  // Whatever a handler does to its object, the next attempt and the dead letter see the event as it came.
  const original = structuredClone(event)
  const watch = new EventWatch(service, key, clock, options.sink)
  try {
    const run = (attempt: Attempt) => handler(structuredClone(original), attempt)
    const call = { id: key, name: service, classify, signal, clock, random, sink: watch.sink }
    return await retry(run, extendPolicy(policies.event, policy), call)
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
