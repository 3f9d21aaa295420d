import {
  isItem,
  isRunBy,
  isWorker,
  type OperationMember,
  type OperationRecord,
  type WorkerRecord,
} from '../../store/internal.js'

/** Why members are left alone. */
export const PAUSED = 'lane_paused'
export const NO_WORKER = 'no_worker'
export const OF_RUN = 'item_of_run'

/** Whether an operation leaves items of runs alone: their run counts its dead, and later stages have their value. */
export function sparesItems({ act, settings }: Pick<OperationRecord, 'act' | 'settings'>): boolean {
  return act === 'discard' || settings.patch !== undefined
}

/** Why a member stays where it is; `undefined` if it may be moved. Without any worker nobody is asked: it waits for one. */
export function refusalOf(
  operation: Pick<OperationRecord, 'act' | 'settings'>,
  member: Pick<OperationMember, 'kind' | 'category' | 'isPaused'>,
  workers: readonly WorkerRecord[],
): string | undefined {
  if (sparesItems(operation) && isItem(member)) return OF_RUN
  if (operation.act !== 'redrive') return undefined
  // It would count as unanswered until the lane is resumed, and hold up the others.
  if (member.isPaused) return PAUSED
  return workers.some(isWorker) && !workers.some(worker => isRunBy(worker, member)) ? NO_WORKER : undefined
}
