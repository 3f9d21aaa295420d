import { sleep, systemClock } from '../time/index.js'
import type { TaskExplanation } from './explain-task.js'

/** How often it looks. Workers report with their heartbeats, which are rarer. */
const LOOK_EVERY_MS = 500

/** A task as it is, and again each time that it has changed, until it has ended, is forgotten or the signal aborts. */
export async function* followTask(
  explain: () => Promise<TaskExplanation | undefined>,
  signal: AbortSignal,
): AsyncGenerator<TaskExplanation> {
  let last = ''
  while (!signal.aborted) {
    const task = await explain()
    if (task === undefined) return
    const seen = looksOf(task)
    if (seen !== last) yield task
    last = seen
    if (task.status !== 'waiting' && task.status !== 'running') return
    await sleep(LOOK_EVERY_MS, systemClock, signal).catch(() => {})
  }
}

/** All of a task but when its worker last reported. */
function looksOf({ notes, ...task }: TaskExplanation): string {
  return JSON.stringify([task, notes && { ...notes, at: '' }])
}
