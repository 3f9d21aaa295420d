import type { BudgetRecord, Lane } from '../store/index.js'
import { type BudgetStore, isCovering, type KindStats } from '../store/internal.js'

/** The part of a store that has the budgets. */
export interface BudgetReader {
  readonly budgets: Pick<BudgetStore, 'list'>
}

/** The budgets that let no task start, or only a few to find out: their gate is not closed, or their cost is spent. */
export async function openGates({ budgets }: BudgetReader): Promise<BudgetRecord[]> {
  return (await budgets.list()).filter(({ gate, cost }) => gate.state !== 'closed' || cost?.isSpent === true)
}

/** The budget whose gate keeps the tasks of a lane back, if one does. */
export function gateOf(
  gates: readonly BudgetRecord[],
  lane: Pick<Lane, 'kind' | 'category'>,
): BudgetRecord | undefined {
  return gates.find(budget => isCovering(budget, lane))
}

/** A kind's figures, with the tasks that a gate keeps back apart from those in held lanes. */
export interface GatedStats extends KindStats {
  /** Of those that wait: tasks that the gate of a budget keeps back, in lanes that are not paused. */
  readonly gated: number
}

/** Stores count the tasks behind a gate as held. A gate covers a category as a whole. */
export function withGated(kinds: readonly KindStats[], gates: readonly BudgetRecord[]): GatedStats[] {
  return kinds.map(part =>
    gateOf(gates, part) === undefined ? { ...part, gated: 0 } : { ...part, held: 0, gated: part.held },
  )
}
