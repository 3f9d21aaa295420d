import type { FailureGroup } from './group-store.js'
import type { By } from './ledger.js'

/**
 * Rules about which failures are one group, and the moves of tasks from one group to another that follow from them.
 *
 * A store keeps rules, and does not read them: the workers make fingerprints. Each of them reports its **grouping**, which names
 * its algorithm and its rules. Once all report the same one, one of them goes through the groups, moves the tasks that belong to
 * another one by now, and notes that grouping. So two releases that run side by side never undo each other's moves.
 */

/** A rule to be added. */
export interface NewGroupRule {
  /** The kind of the tasks. Default: every kind. */
  readonly kind?: string | undefined
  /**
   * A message, from its beginning to its end, without the class of its error. `*` stands for any text, which varies; `{*}` for
   * any text that tells one group from another. Of several rules that match, the one with the most other characters holds.
   */
  readonly pattern: string
}

/** A rule about which failures are one group. */
export interface GroupRule extends NewGroupRule {
  /** One of a kind in the whole store. */
  readonly id: number
  /** When it was added, on the store's clock. */
  readonly at: number
  /** The person who added it. */
  readonly who: string
  /** The reason that they gave. */
  readonly why?: string
}

/** The rules of a store. */
export interface GroupRules {
  /** The rules, in the order in which they were added. */
  readonly rules: readonly GroupRule[]
  /** The last grouping that all groups were gone through for; `undefined` if none was. */
  readonly regrouped: string | undefined
}

/** Tasks that leave a group. */
export interface Regrouping {
  /** The group that they are in. Those that are in another one by now stay there. */
  readonly from: string
  /**
   * The group that most of them go to. It gets the figures of the one that they leave, and its life, unless it has one of its
   * own; and it is made even if its kind has 1000 groups. The group that they leave is forgotten once it has no tasks.
   */
  readonly heir?: FailureGroup
  /** The tasks, with their groups. A task stays where it is if its kind has no place for its group. */
  readonly moves: readonly { readonly task: string; readonly to: FailureGroup }[]
}

/** Keeps rules about groups, and moves tasks as they say. */
export interface GroupRuleStore {
  /** The rules. */
  rules(): Promise<GroupRules>
  /**
   * Adds a rule, on record in the audit log in the same transaction. Adding one that is there changes nothing, and returns it. A
   * store has at most 100 rules; another one is an `OptionError`.
   */
  addRule(rule: NewGroupRule, by: By): Promise<GroupRule>
  /** Removes a rule, on record in the audit log in the same transaction. Returns whether there was such a rule. */
  removeRule(id: number, by: By): Promise<boolean>
  /**
   * Moves tasks from one group to others, with the last failure in their ledger. A group that is not the heir counts one failed
   * attempt for each task that it gets. Returns how many were moved.
   */
  regroup(regrouping: Regrouping): Promise<number>
  /** Notes that all groups were gone through for a grouping. */
  regrouped(grouping: string): Promise<void>
}
