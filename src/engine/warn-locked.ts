import { failureText } from '../telemetry/index.js'

/** Warns that another transaction holds a task, such as that of a handler that hangs. */
export function warnLocked(problem: string, failure: unknown): void {
  process.emitWarning(`${problem} ${failureText(failure)}`, { type: 'RedriveWarning', code: 'task_locked' })
}
