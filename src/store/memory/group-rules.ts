import type { GroupRule, GroupRules, NewGroupRule } from '../contract/group-rule.js'
import type { By } from '../contract/ledger.js'
import { checkBy, checkName } from '../rules/check.js'
import { checkRule, checkRuleCount, checkRuleId } from '../rules/groups/check-rule.js'
import { ruleRecord } from '../rules/operator-record.js'

/** The parts of the store that its rules need. */
interface RuleHost {
  readonly now: () => number
  readonly record: (record: string) => void
}

/** The rules about failure groups of the memory store. */
export class MemoryGroupRules {
  readonly #rules = new Map<number, GroupRule>()
  readonly #host: RuleHost
  #lastId = 0
  #regrouped: string | undefined

  constructor(host: RuleHost) {
    this.#host = host
  }

  list(): GroupRules {
    return { rules: [...this.#rules.values()], regrouped: this.#regrouped }
  }

  add({ kind, pattern }: NewGroupRule, by: By): GroupRule {
    checkRule({ kind, pattern }, by)
    const known = [...this.#rules.values()].find(rule => rule.kind === kind && rule.pattern === pattern)
    if (known !== undefined) return known
    checkRuleCount(this.#rules.size)
    const { who, why } = by
    const now = this.#host.now()
    const of = kind !== undefined && { kind }
    const rule = { id: ++this.#lastId, ...of, pattern, at: now, who, ...(why !== undefined && { why }) }
    this.#rules.set(rule.id, rule)
    this.#host.record(ruleRecord('added', rule, by, now))
    return rule
  }

  remove(id: number, by: By): boolean {
    checkRuleId(id)
    checkName('who', by?.who)
    checkBy(by)
    const rule = this.#rules.get(id)
    if (rule === undefined) return false
    this.#rules.delete(id)
    this.#host.record(ruleRecord('removed', rule, by, this.#host.now()))
    return true
  }

  regrouped(grouping: string): void {
    this.#regrouped = grouping
  }
}
