import {
  type ArrangingAct,
  isArranging,
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
/** Why tasks that have not ended keep their time and priority. */
export const RUNNING = 'running'
export const ORDERED = 'lane_ordered'
export const ALREADY_DUE = 'already_due'
export const TWIN_ALIVE = 'twin_alive'

/** Whether an operation leaves items of runs alone: their run counts its dead, and later stages have their value. */
export function sparesItems({ act, settings }: Pick<OperationRecord, 'act' | 'settings'>): boolean {
  return act === 'discard' || settings.patch !== undefined
}

/** Why a member stays where it is; `undefined` if it may be moved. Without any worker nobody is asked: it waits for one. */
export function refusalOf(
  operation: Pick<OperationRecord, 'act' | 'settings'>,
  member: Pick<OperationMember, 'kind' | 'category' | 'isOrdered' | 'isPaused' | 'standing'> & {
    readonly hasTwin: boolean
  },
  workers: readonly WorkerRecord[],
): string | undefined {
  if (isArranging(operation.act)) return arrangeRefusal(operation.act, member)
  if (sparesItems(operation) && isItem(member)) return OF_RUN
  if (operation.act !== 'redrive') return undefined
  if (member.hasTwin && (operation.settings.twin ?? 'skip') === 'skip') return TWIN_ALIVE
  // It would count as unanswered until the lane is resumed, and hold up the others.
  if (member.isPaused) return PAUSED
  return workers.some(isWorker) && !workers.some(worker => isRunBy(worker, member)) ? NO_WORKER : undefined
}

/** A task that runs keeps its place, and so does one whose lane keeps an order. */
function arrangeRefusal(
  act: ArrangingAct,
  { isOrdered, standing }: Pick<OperationMember, 'isOrdered' | 'standing'>,
): string | undefined {
  if (standing === 'running') return RUNNING
  if (act === 'promote') return standing === 'due' ? ALREADY_DUE : undefined
  return isOrdered ? ORDERED : undefined
}
