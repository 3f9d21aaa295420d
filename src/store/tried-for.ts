import type { NewTask } from './store.js'

/** How long the attempt took that was made elsewhere; 0 if there was none. A task counts its time from that one's start. */
export function triedForMs({ tried }: Pick<NewTask, 'tried'>): number {
  if (tried === undefined) return 0
  return Math.max(0, Math.round(tried.attempt.endedAt - tried.attempt.startedAt))
}
