import type { OperationAct, OperationMember, WorkerRecord, WorkerReport } from '../store/index.js'
import { isRunLane } from '../store/internal.js'

/** Why members are left alone. */
export const PAUSED = 'lane_paused'
export const NO_WORKER = 'no_worker'
export const OF_RUN = 'item_of_run'

/** Why a member stays where it is; `undefined` if it may be moved. Without any worker nobody is asked: it waits for one. */
export function refusalOf(
  act: OperationAct,
  member: Pick<OperationMember, 'kind' | 'category' | 'key' | 'isPaused'>,
  workers: readonly WorkerRecord[],
): string | undefined {
  // Their run counts its dead.
  if (act === 'discard' && isRunLane(member)) return OF_RUN
  if (act !== 'redrive') return undefined
  // It would count as unanswered until the lane is resumed, and hold up the others.
  if (member.isPaused) return PAUSED
  return workers.length > 0 && !workers.some(worker => isRunBy(worker, member)) ? NO_WORKER : undefined
}

/** Whether a worker runs tasks of this kind and category, or may: some do not report what they run. */
export function isRunBy(
  { kinds, categories }: WorkerReport,
  { kind, category }: Pick<OperationMember, 'kind' | 'category'>,
): boolean {
  return (kinds === undefined || kinds.includes(kind)) && (categories === undefined || categories.includes(category))
}
