import { RedriveError } from '../policy/index.js'
import type { WorkEvent } from './events.js'

/** Takes the events of work. It may be slow or broken: the work never waits for it, nor fails with it. */
export type Sink = (event: WorkEvent) => unknown

const failures = new WeakMap<Sink, number>()

/** Hands an event to a sink. A sink that throws or rejects is counted, and the first time reported as a warning. */
export function emit(sink: Sink, event: WorkEvent): void {
  try {
    const pending = sink(event)
    // A function that returns something else, such as `list.push(event)`, is a good sink too.
    if (pending !== undefined) Promise.resolve(pending).catch(error => failed(sink, error))
  } catch (error) {
    failed(sink, error)
  }
}

/** How many events a sink has failed to take. */
export function sinkFailures(sink: Sink): number {
  return failures.get(sink) ?? 0
}

/** One sink that feeds several; one that fails does not keep the event from the others. */
export function fanOut(...sinks: readonly Sink[]): Sink {
  return event => {
    for (const sink of sinks) emit(sink, event)
  }
}

/**
 * A sink with a function for each type of event that is of interest.
 *
 * ```ts
 * on({ gave_up: ({ work, reason }) => page(`${work.name} gave up: ${reason}`) })
 * ```
 */
export function on(handlers: { [T in WorkEvent['type']]?: (event: WorkEvent & { readonly type: T }) => void }): Sink {
  return event => {
    const handler = handlers[event.type] as Sink | undefined
    // Returned, so that the rejection of a handler that is async is this sink's failure, not an unhandled one.
    return handler?.(event)
  }
}

function failed(sink: Sink, cause: unknown): void {
  const count = sinkFailures(sink) + 1
  failures.set(sink, count)
  if (count > 1) return
  // What the sink said may hold secrets, so it is not printed; it is the cause of the warning.
  process.emitWarning(new RedriveError('REDRIVE_SINK_FAILED', `The sink '${sink.name}' failed.`, { cause }))
}
