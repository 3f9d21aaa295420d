import type { WorkerRecord } from './worker-store.js'

/** Whether it runs tasks: a notifier delivers messages only. */
export function isWorker({ kinds = [] }: Pick<WorkerRecord, 'kinds'>): boolean {
  return kinds.length === 0 || kinds.some(kind => !kind.startsWith('notify:'))
}
