import type { GroupRule } from '../../contract/group-rule.js'

/** A row of the table `group_rule`. */
export interface RuleRow {
  readonly id: number
  /** NULL: every kind. */
  readonly kind: string | null
  readonly pattern: string
  readonly at: number
  readonly who: string
  readonly why: string | null
}

/** Converts a rule to a row. */
export function ruleRow({ kind, pattern, at, who, why }: Omit<GroupRule, 'id'>): Omit<RuleRow, 'id'> {
  return { kind: kind ?? null, pattern, at, who, why: why ?? null }
}

/** Converts a row to a rule. */
export function ruleOf({ id, kind, pattern, at, who, why }: RuleRow): GroupRule {
  return { id, ...(kind !== null && { kind }), pattern, at, who, ...(why !== null && { why }) }
}
