import { type Attempt, RetryExhaustedError, retry } from '../call/index.js'
import { type Classifier, extendPolicy, type GiveUpReason, type PolicyInput, policies } from '../policy/index.js'
import type { Sink } from '../telemetry/index.js'
import { type Clock, systemClock } from '../time/index.js'
import { asEvent } from './as-event.js'
import { type DeadLetterEntry, deadLetterEntry } from './dead-letter-entry.js'
import { DeadLetterError, EventExhaustedError } from './errors.js'

/** How an event is handled. */
export interface HandleEventOptions {
  /** The service that handles it, as dead letters and metrics name it. */
  readonly service: string
  /** The event's idempotency key: see `eventKey`. */
  readonly key: string
  /** Laid over `policies.event`: eight attempts within half an hour, of a `RetryableError` and nothing else. */
  readonly policy?: PolicyInput
  /** Writes the dead letter. The event counts as dealt with once this has resolved. */
  readonly deadLetter?: (entry: DeadLetterEntry) => unknown
  /** Code that corrects the verdict on a failure. */
  readonly classify?: Classifier
  /** Stops waiting and trying. What was aborted is no dead letter: it is to be delivered again. */
  readonly signal?: AbortSignal
  /** Takes the events of the work. */
  readonly sink?: Sink
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock
  /** Where jitter comes from; by default, from the key and the attempt's number. */
  readonly random?: () => number
}

/** What an event's handler is: it gets a copy of the event as it was delivered, each time. */
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
  const { service, key, policy = {}, classify, signal, clock = systemClock, random, sink } = options
  // Whatever a handler does to its object, the next attempt and the dead letter see the event as it came.
  const original = structuredClone(event)
  let attempts = 0
  try {
    const run = (attempt: Attempt) => {
      attempts = attempt.attempt
      return handler(structuredClone(original), attempt)
    }
    return await retry(run, extendPolicy(policies.event, policy), {
      id: key,
      name: service,
      classify,
      signal,
      clock,
      random,
      sink: sink && asEvent(sink, { service, key, clock }),
    })
  } catch (error) {
    if (signal?.aborted) throw error
    const isExhausted = error instanceof RetryExhaustedError
    const failure = isExhausted ? error.cause : error
    const reason: GiveUpReason = isExhausted ? error.reason : 'final_error'
    const entry = deadLetterEntry({ event: original, key, service, attempts, failure, reason, at: clock.now() })
    try {
      await options.deadLetter?.(entry)
    } catch (cause) {
      throw new DeadLetterError(entry, { cause })
    }
    throw isExhausted ? new EventExhaustedError(entry, { cause: failure }) : error
  }
}
