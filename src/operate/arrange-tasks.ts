import { checkOptions } from '../policy/internal.js'
import type { Store } from '../store/index.js'
import { type ArrangingAct, contractOf, type OperationRecord } from '../store/internal.js'
import { type Moment, toTime } from '../task/internal.js'
import { getTasks } from './get-tasks.js'
import { ACT_OPTIONS, type ActOptions, actOnMany } from './operations.js'
import { alreadyEnded, notFound, type Refusal } from './refusal.js'
import { checkSelection, type LetterSelection } from './selection.js'

/** Who changes tasks that wait, why, and how. `signal` stops it after the current batch. */
export interface ArrangeOptions
  extends Pick<ActOptions, 'who' | 'why' | 'perSecond' | 'limit' | 'signal' | 'onProgress' | 'clock'> {}

/** The result of a change to tasks that wait. */
export interface ArrangedTasks {
  /** How many tasks were changed. */
  readonly moved: number
  /** Named tasks that do not exist or have ended. `operation.progress.refused` counts the others that were left alone. */
  readonly refused: readonly Refusal[]
  /** Whether the signal stopped it before the end. */
  readonly isStopped: boolean
  /** The operation that changed them; `undefined` if none matched. */
  readonly operation: OperationRecord | undefined
}

/**
 * Makes tasks due that wait for their time, by an operation that can be undone. Leaves alone those that run. Lanes, limits and
 * budgets hold for them as for all others.
 *
 * ```ts
 * await promoteTasks(store, { filter: { kind: 'charge' } }, { who: 'ada', why: 'the gateway is back' })
 * ```
 */
export function promoteTasks(
  store: Store,
  selection: LetterSelection,
  options: ArrangeOptions,
): Promise<ArrangedTasks> {
  checkOptions('promoteTasks()', options, ACT_OPTIONS)
  return arrange(store, 'promote', selection, options)
}

/**
 * Gives tasks that wait another time, by an operation that can be undone. Leaves alone those that run, and those in ordered lanes.
 *
 * ```ts
 * await rescheduleTasks(store, { ids: ['order-42'] }, { runAt: '2030-03-10T08:00:00Z', who: 'ada' })
 * ```
 */
export async function rescheduleTasks(
  store: Store,
  selection: LetterSelection,
  { runAt, ...options }: ArrangeOptions & { readonly runAt: Moment },
): Promise<ArrangedTasks> {
  checkOptions('rescheduleTasks()', options, ACT_OPTIONS)
  return arrange(store, 'reschedule', selection, { ...options, runAt: toTime('runAt', runAt) })
}

/**
 * Gives tasks that wait another priority, by an operation that can be undone. Higher goes first. Leaves alone those that run,
 * and those in ordered lanes.
 *
 * ```ts
 * await prioritizeTasks(store, { filter: { key: 'tenant-7' } }, { priority: 10, who: 'ada' })
 * ```
 */
export function prioritizeTasks(
  store: Store,
  selection: LetterSelection,
  options: ArrangeOptions & { readonly priority: number },
): Promise<ArrangedTasks> {
  checkOptions('prioritizeTasks()', options, ACT_OPTIONS)
  return arrange(store, 'prioritize', selection, options)
}

async function arrange(
  store: Store,
  act: ArrangingAct,
  selection: LetterSelection,
  options: ActOptions,
): Promise<ArrangedTasks> {
  const contract = contractOf(store)
  checkSelection(selection)
  const refused = 'ids' in selection ? await refusals(contract, selection.ids) : []
  const operation = await actOnMany(contract, act, selection, options)
  return { moved: operation?.moved ?? 0, refused, isStopped: operation?.status === 'stopped', operation }
}

async function refusals(store: Parameters<typeof getTasks>[0], ids: readonly string[]): Promise<Refusal[]> {
  const refused: Refusal[] = []
  for await (const { id, task } of getTasks(store, ids)) {
    if (task === undefined) refused.push(notFound(id))
    else if (task.status !== 'waiting' && task.status !== 'running') refused.push(alreadyEnded(id, task.status))
  }
  return refused
}
