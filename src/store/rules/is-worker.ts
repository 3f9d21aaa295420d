import type { WorkerRecord, WorkerReport } from '../contract/worker-store.js'

/** Whether it runs tasks: a notifier delivers messages only. */
export function isWorker({ kinds = [] }: Pick<WorkerRecord, 'kinds'>): boolean {
  return kinds.length === 0 || kinds.some(kind => !kind.startsWith('notify:'))
}

/** Whether a worker runs tasks of this kind, or of a category of it, or may: some do not report what they run. */
export function isRunBy(
  { kinds, categories }: WorkerReport,
  { kind, category }: { readonly kind: string; readonly category?: string | undefined },
): boolean {
  if (kinds !== undefined && !kinds.includes(kind)) return false
  return category === undefined || categories === undefined || categories.includes(category)
}
