import { RedriveError } from '../policy/index.js'

/** Calls a listener. If it throws or rejects, that is a warning: a listener never touches the work. */
export function tell<T>(listener: (event: T) => unknown, event: T): void {
  try {
    Promise.resolve(listener(event)).catch(warn)
  } catch (error) {
    warn(error)
  }
}

function warn(cause: unknown): void {
  process.emitWarning(new RedriveError('listener_failed', 'A listener of a circuit breaker failed.', { cause }))
}
