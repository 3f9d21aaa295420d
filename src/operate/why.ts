import type { Store, TaskStatus } from '../store/index.js'
import { contractOf, isSlotRunId, type SlotEnd, type TaskStanding } from '../store/internal.js'
import { batchCause } from './why-batch.js'
import { type Because, MAX_BEFORE, type WhyAction, type WhyCause, type WhyStore } from './why-cause.js'
import { whyEnded, whyRunning } from './why-ended.js'
import { runCause, whySlot } from './why-slot.js'
import { whyWaiting } from './why-waiting.js'

/** Why a task waits, runs, or has ended as it has: the answer, the facts, and what to do. Plain JSON. */
export interface Why {
  /** The id of the task, or that of the run that a slot of a schedule has or would have. */
  readonly id: string
  /** The name given to `defineTask`. */
  readonly kind: string
  /** The category of its lane; empty if it has none. */
  readonly category: string
  /** The key of its lane; empty if it has none. */
  readonly key: string
  /** Where it is in its life. For a slot that has no task: how the slot ended, or `waiting`. */
  readonly status: TaskStatus | SlotEnd
  /** Whether there is a task. A slot of a schedule may have none. */
  readonly isTask: boolean
  /** The answer, in one sentence: the text of the first cause. */
  readonly answer: string
  /** All causes, the one that decides first. */
  readonly causes: readonly WhyCause[]
  /** The commands that an operator can run about it. */
  readonly actions: readonly WhyAction[]
}

/**
 * Explains why a task waits, runs, or has ended as it has, and why a slot of a schedule has no task: by the id of its run,
 * `name@2027-03-28T01:00:00Z`, or with its local time, `name@2027-03-28T02:30`. Resolves with `undefined` if the store has
 * neither. Its cost does not depend on the size of the store.
 */
export async function why(store: Store, id: string): Promise<Why | undefined> {
  const contract = contractOf(store)
  const standing = await contract.standing(id, MAX_BEFORE + 1)
  if (standing === undefined) {
    const slot = await whySlot(contract, id)
    // With its local time, it may have a task.
    if (slot !== undefined && slot.id !== id && (await contract.get(slot.id)) !== undefined) return why(store, slot.id)
    return slot && { ...slot, isTask: false, answer: slot.causes[0]?.text ?? '' }
  }
  const { kind, category, key, status } = standing.task
  const { causes, actions } = await becauseOf(contract, standing)
  const run = isSlotRunId(id) ? runCause(await contract.schedules.slotOf(id)) : undefined
  const batch = await batchCause(contract, id)
  const all = [...causes, ...(run === undefined ? [] : [run]), ...(batch === undefined ? [] : [batch])]
  return { id, kind, category, key, status, isTask: true, answer: causes[0]?.text ?? '', causes: all, actions }
}

function becauseOf(store: WhyStore, standing: TaskStanding): Promise<Because> {
  switch (standing.task.status) {
    case 'waiting':
      return whyWaiting(store, standing)
    case 'running':
      return whyRunning(store, standing)
    case 'succeeded':
    case 'skipped':
    case 'dead':
    case 'cancelled':
      return whyEnded(store, standing)
  }
}
