import type { Store, TaskStatus } from '../store/index.js'
import { contractOf, type TaskStanding } from '../store/internal.js'
import { type Because, MAX_BEFORE, type WhyAction, type WhyCause, type WhyStore } from './why-cause.js'
import { whyEnded, whyRunning } from './why-ended.js'
import { whyWaiting } from './why-waiting.js'

/** Why a task waits, runs, or has ended as it has: the answer, the facts, and what to do. Plain JSON. */
export interface Why {
  /** The id of the task. */
  readonly id: string
  /** The name given to `defineTask`. */
  readonly kind: string
  /** The category of its lane; empty if it has none. */
  readonly category: string
  /** The key of its lane; empty if it has none. */
  readonly key: string
  /** Where it is in its life. */
  readonly status: TaskStatus
  /** The answer, in one sentence: the text of the first cause. */
  readonly answer: string
  /** All causes, the one that decides first. */
  readonly causes: readonly WhyCause[]
  /** The commands that an operator can run about it. */
  readonly actions: readonly WhyAction[]
}

/**
 * Explains why a task waits, runs, or has ended as it has. Resolves with `undefined` if the store has none with this id.
 * Its cost does not depend on the size of the store.
 */
export async function why(store: Store, id: string): Promise<Why | undefined> {
  const contract = contractOf(store)
  const standing = await contract.standing(id, MAX_BEFORE + 1)
  if (standing === undefined) return undefined
  const { kind, category, key, status } = standing.task
  const { causes, actions } = await becauseOf(contract, standing)
  return { id, kind, category, key, status, answer: causes[0]?.text ?? '', causes, actions }
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
