import type { GroupRule, GroupRules } from '../contract/group-rule.js'
import type { GroupRulePort } from '../port/group-port.js'

/** The rules about failure groups of the memory store. */
export class MemoryGroupRules implements GroupRulePort {
  readonly #rules = new Map<number, GroupRule>()
  #lastId = 0
  #regrouped: string | undefined

  list(): GroupRules {
    return { rules: [...this.#rules.values()], regrouped: this.#regrouped }
  }

  lock(): GroupRules {
    return this.list()
  }

  add(rule: Omit<GroupRule, 'id'>): number {
    const id = ++this.#lastId
    this.#rules.set(id, { id, ...rule })
    return id
  }

  remove(id: number): void {
    this.#rules.delete(id)
  }

  saveRegrouped(grouping: string): void {
    this.#regrouped = grouping
  }
}
