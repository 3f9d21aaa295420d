import type { GroupRule, GroupRules, NewGroupRule } from '../contract/group-rule.js'
import type { By } from '../contract/ledger.js'
import { checkRuleCount } from '../rules/groups/check-rule.js'
import { ruleOf } from '../rules/groups/rule-row.js'
import { ruleRecord } from '../rules/operator-record.js'
import type { Statements } from './statements.js'

/** The rules about failure groups. */
export function groupRules(statements: Statements): GroupRules {
  return { rules: statements.groupRules.all().map(ruleOf), regrouped: statements.regrouped.get() }
}

/** Adds a rule. Within a transaction. */
export function addRule(statements: Statements, { kind, pattern }: NewGroupRule, by: By, now: number): GroupRule {
  const { rules } = groupRules(statements)
  const known = rules.find(rule => rule.kind === kind && rule.pattern === pattern)
  if (known !== undefined) return known
  checkRuleCount(rules.length)
  const row = { kind: kind ?? null, pattern, at: now, who: by.who, why: by.why ?? null }
  const rule = ruleOf({ id: Number(statements.addRule.run(row).lastInsertRowid), ...row })
  statements.appendAudit.run(now, ruleRecord('added', rule, by, now))
  return rule
}

/** Removes a rule. Returns whether there was one. Within a transaction. */
export function removeRule(statements: Statements, id: number, by: By, now: number): boolean {
  const rule = groupRules(statements).rules.find(rule => rule.id === id)
  if (rule === undefined) return false
  statements.removeRule.run(id)
  statements.appendAudit.run(now, ruleRecord('removed', rule, by, now))
  return true
}
