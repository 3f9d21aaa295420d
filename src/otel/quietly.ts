import { RedriveError } from '../policy/index.js'

let hasWarned = false

/** Calls the SDK, which may hold code of anybody's. If it throws, the work goes on untraced, and the first time is told. */
export function quietly<T>(trace: () => T): T | undefined {
  try {
    return trace()
  } catch (cause) {
    if (!hasWarned) process.emitWarning(new RedriveError('tracing_failed', 'The tracing of work failed.', { cause }))
    hasWarned = true
    return undefined
  }
}
