import type { GroupRule, GroupRules } from '../contract/group-rule.js'
import type { GroupRulePort } from '../port/group-port.js'
import { ruleOf, ruleRow } from '../rules/groups/rule-row.js'
import type { SqliteParts } from './port.js'
import type { Statements } from './statements.js'

/** The primitives of the rules about failure groups on SQLite. */
export class SqliteGroupRulePort implements GroupRulePort {
  readonly #statements: Statements

  constructor({ statements }: SqliteParts) {
    this.#statements = statements
  }

  list(): GroupRules {
    return { rules: this.#statements.groupRules.all().map(ruleOf), regrouped: this.#statements.regrouped.get() }
  }

  lock(): GroupRules {
    return this.list()
  }

  add(rule: Omit<GroupRule, 'id'>): number {
    return Number(this.#statements.addRule.run(ruleRow(rule)).lastInsertRowid)
  }

  remove(id: number): void {
    this.#statements.removeRule.run(id)
  }

  saveRegrouped(grouping: string): void {
    this.#statements.setRegrouped.run(grouping)
  }
}
