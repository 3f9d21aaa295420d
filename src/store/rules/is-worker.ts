import type { Lane } from '../contract/lane.js'
import type { WorkerRecord, WorkerReport } from '../contract/worker-store.js'

/** Whether it runs tasks: a notifier delivers messages only. */
export function isWorker({ kinds = [] }: Pick<WorkerRecord, 'kinds'>): boolean {
  return kinds.length === 0 || kinds.some(kind => !kind.startsWith('notify:'))
}

/** Whether a worker runs tasks of this kind and category, or may: some do not report what they run. */
export function isRunBy({ kinds, categories }: WorkerReport, { kind, category }: Omit<Lane, 'key'>): boolean {
  return (kinds === undefined || kinds.includes(kind)) && (categories === undefined || categories.includes(category))
}
