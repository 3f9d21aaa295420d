import { RedriveError } from '../policy/index.js'
import type { WorkEvent } from './work-events.js'

/** Receives work events. A sink may be slow or broken: work never waits for it, and never fails because of it. */
export type Sink = (event: WorkEvent) => unknown

const failures = new WeakMap<Sink, number>()

/** Hands a work event to a sink. Counts the failures of a sink that throws or rejects, and warns of the first. */
export function emit(sink: Sink, event: WorkEvent): void {
  try {
    const pending = sink(event)
    // A function that returns something else, such as `list.push(event)`, is a good sink too.
    if (pending !== undefined) Promise.resolve(pending).catch(error => failed(sink, error))
  } catch (error) {
    failed(sink, error)
  }
}

/** Returns how many work events a sink has failed to handle. */
export function sinkFailures(sink: Sink): number {
  return failures.get(sink) ?? 0
}

/** Combines several sinks into one. A sink that fails does not keep the others from their work event. */
export function fanOut(...sinks: readonly Sink[]): Sink {
  return event => {
    for (const sink of sinks) emit(sink, event)
  }
}

/**
 * Creates a sink that calls a function for each type of work event that is of interest.
 *
 * ```ts
 * on({ gave_up: ({ work, reason }) => page(`${work.name} gave up: ${reason}`) })
 * ```
 */
export function on(handlers: { [T in WorkEvent['type']]?: (event: WorkEvent & { readonly type: T }) => void }): Sink {
  return event => {
    const handler = handlers[event.type] as Sink | undefined
    // Return it, so that the rejection of an async handler is a failure of this sink, and not unhandled.
    return handler?.(event)
  }
}

function failed(sink: Sink, cause: unknown): void {
  const count = sinkFailures(sink) + 1
  failures.set(sink, count)
  if (count > 1) return
  // The failure may hold secrets, so it is not printed but kept as the cause of the warning.
  process.emitWarning(new RedriveError('sink_failed', `The sink '${sink.name}' failed.`, { cause }))
}
