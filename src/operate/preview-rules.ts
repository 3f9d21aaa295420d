import { isLostGroup, plannedMoves } from '../engine/internal.js'
import { PatternRules } from '../fingerprint/internal.js'
import type { Store } from '../store/index.js'
import { contractOf, type NewGroupRule } from '../store/internal.js'
import { listGroups } from './groups.js'

/** Tasks of one group that rules would move to another one. */
export interface RegroupPreview {
  /** The id of the group that they are in. */
  readonly from: string
  /** The id of the group that they would be in. */
  readonly to: string
  /** The kind of the tasks. */
  readonly kind: string
  /** The pattern of the group that they are in. */
  readonly fromPattern: string
  /** The pattern of the group that they would be in. */
  readonly toPattern: string
  /** How many of the tasks that were looked at would be moved. */
  readonly tasks: number
  /** How many tasks of the group were looked at: the latest, at most 200. */
  readonly looked: number
}

/** Shows which tasks would be moved to other groups if these were the rules of the store. Changes nothing. */
export async function previewRules(store: Store, rules: readonly NewGroupRule[]): Promise<RegroupPreview[]> {
  const contract = contractOf(store)
  const compiled = new PatternRules(rules)
  const previews: RegroupPreview[] = []
  for (const { id, kind, pattern } of await listGroups(contract)) {
    if (isLostGroup(id)) continue
    for await (const { moves, looked } of plannedMoves(contract, id, compiled)) {
      const counts = new Map<string, { toPattern: string; tasks: number }>()
      for (const { to } of moves) {
        const { tasks } = counts.get(to.id) ?? { tasks: 0 }
        counts.set(to.id, { toPattern: to.pattern, tasks: tasks + 1 })
      }
      for (const [to, count] of counts) previews.push({ from: id, to, kind, fromPattern: pattern, ...count, looked })
      break
    }
  }
  return previews
}
