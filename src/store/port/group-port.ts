import type { Regrouping } from '../contract/group-rule.js'
import type { FailureGroup, GroupLife } from '../contract/group-store.js'
import type { TaskPlace } from '../rules/cursor.js'
import type { KeptGroup } from '../rules/groups/group-record.js'

/** The primitives of failure groups, beside those that settlements have. */
export interface GroupPort {
  get(id: string): KeptGroup | undefined
  /** Groups of a kind, or of all, from before a place: last seen first, then the higher id. */
  list(kind: string | undefined, before: TaskPlace, limit: number): readonly KeptGroup[]
  /** Those of these groups that exist. Nobody else changes them, or makes groups, until the transaction ends. */
  lock(ids: readonly string[]): readonly KeptGroup[]
  saveLife(id: string, life: GroupLife): void
  /** Those of these tasks that are in a group, locked. */
  lockMembers(id: string, tasks: readonly string[]): readonly string[]
  /** How many more groups a kind may have. Those of lost and other failures do not count. */
  placesLeft(kind: string): number
  /** Adds groups without figures. */
  add(groups: readonly FailureGroup[], firstSeenAt: number): void
  /** Gives the failures of a group to its heir: how many there were, and when they were seen. The tasks stay where they are. */
  inherit(left: string, heir: string): void
  /**
   * Moves members of a group to others, with the last failure in their ledger. A group counts the failures that it gets,
   * unless it is the heir.
   */
  moveMembers(left: string, moves: Regrouping['moves'], heir: string | undefined): void
  /** Forgets a group, unless a task names it. A letter that was discarded names its group: it may come back. */
  forget(id: string): void
}
