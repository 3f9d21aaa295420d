import type { GroupRule, GroupRules } from '../contract/group-rule.js'
import type { GroupRulePort } from '../port/group-port.js'
import type { Promised } from '../port/steps.js'
import { type RuleRow, ruleOf, ruleRow } from '../rules/groups/rule-row.js'
import type { Sql } from './database.js'
import { storable, stored } from './text.js'

/** The primitives of the rules about failure groups on PostgreSQL. */
export class PostgresGroupRulePort implements Promised<GroupRulePort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async list(): Promise<GroupRules> {
    const { rules, regrouped } = JSON.parse(String(await this.#sql.call('group_rules', []))) as RulesAnswer
    const read = (row: RuleRow) => {
      const texts = { pattern: stored(row.pattern) ?? '', who: stored(row.who) ?? '' }
      return ruleOf({ ...row, ...texts, why: stored(row.why ?? undefined) ?? null })
    }
    return { rules: rules.map(read), regrouped: regrouped ?? undefined }
  }

  async lock(): Promise<GroupRules> {
    await this.#sql.call('lock_rules', [])
    return this.list()
  }

  async add(rule: Omit<GroupRule, 'id'>): Promise<number> {
    const { kind, pattern, at, who, why } = ruleRow(rule)
    const texts = [who, why].map(text => storable(text ?? undefined) ?? null)
    return Number(await this.#sql.call('add_rule', [kind, storable(pattern), at, ...texts]))
  }

  async remove(id: number): Promise<void> {
    await this.#sql.call('remove_rule', [id])
  }

  async saveRegrouped(grouping: string): Promise<void> {
    await this.#sql.call('note_regrouped', [grouping])
  }
}

/** The answer of the SQL function `group_rules`. */
interface RulesAnswer {
  readonly rules: readonly RuleRow[]
  readonly regrouped: string | null
}
