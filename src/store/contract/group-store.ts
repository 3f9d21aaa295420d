import type { GroupRuleStore } from './group-rule.js'
import type { By } from './ledger.js'
import type { Page, PageRequest } from './list.js'

/**
 * Failure groups: failures with the same fingerprint. Each failed attempt brings its group with its settlement, and each task
 * is in the group of its last failure until it succeeds, is skipped or advances to its next stage; a redrive keeps it there.
 *
 * - **seen** counts failed attempts, and only grows.
 * - **retrying** counts the tasks of the group that wait or run, **dead** its dead letters. They equal a count over the tasks
 *   at every moment: settlements and all other verbs keep them up in their own transaction.
 *
 * A lost attempt has no error, so all of a kind are one group: `lost:<kind>`. A kind has at most 1000 groups; failures that
 * would need another one go to the group `other:<kind>:<code>`.
 *
 * A group has a life. Operators mark it, and settlements change it in one case only:
 *
 *           ┌─────────────► acknowledged
 *   new ────┼─────────────► ignored ──until──► new
 *           └─────────────► fixed ──a failure that has the fix──► regressed
 *
 * Every state can be marked as any other but `regressed`. A failure has the fix if its attempt began after the mark, and its
 * release is the one of the mark or a later one. Semantic versions are compared; another release counts as later if no live
 * worker reported it at the time of the mark. An attempt whose release is unknown counts only if the mark names none either.
 */

/** The facts that all failures of a group have in common. */
export interface FailureGroup {
  /** The fingerprint: the version of its algorithm and a hash, such as `1-9c2f0b7d41aa83e6`. */
  readonly id: string
  /** The kind of the tasks. */
  readonly kind: string
  /** The code of the verdict, such as `http_502`. */
  readonly code: string
  /** The class of the error; empty where none is on record. */
  readonly errorName: string
  /** The message, with `*` in the place of ids, numbers and other values. */
  readonly pattern: string
  /** The user's own frames, of a bug: at most two. */
  readonly frames: readonly string[]
}

/** Where a group is in its life. */
export type GroupState = GroupLife['state']

/** When somebody marked a group, and why. */
export interface LifeMark {
  /** When it came to be in its state, on the store's clock. */
  readonly at: number
  /** The person who marked it. Of a regressed group: as fixed. */
  readonly who: string
  /** The reason that they gave. */
  readonly why?: string
}

/** When a group is ignored no longer: once one of these is passed. If none is given, it stays ignored. */
export interface IgnoredUntil {
  /** A time, in milliseconds. */
  readonly at?: number
  /** A number of failed attempts since the mark. */
  readonly count?: number
  /**
   * A number of failed attempts in an hour of the clock that began after the mark. It is passed for as long as one of the
   * last 24 hours had more.
   */
  readonly perHour?: number
}

/** The life of a group: its state, and how it came there. */
export type GroupLife =
  /** Nobody has marked it, or it is ignored no longer. */
  | { readonly state: 'new' }
  /** Somebody knows of it. */
  | (LifeMark & { readonly state: 'acknowledged' })
  /** Fixed in a release, or by something else than a release. `before` are the other releases that ran at that time. */
  | (LifeMark & { readonly state: 'fixed'; readonly release?: string; readonly before: readonly string[] })
  /** Not worth attention until something is passed. `seen` is the group's figure at the time of the mark. */
  | (LifeMark & { readonly state: 'ignored'; readonly until: IgnoredUntil; readonly seen: number })
  /** It failed in a release that has the fix. */
  | (LifeMark & { readonly state: 'regressed'; readonly release?: string; readonly fixedIn?: string })

/** A mark that an operator makes. @inline */
export type GroupMark =
  | { readonly state: 'new' }
  | { readonly state: 'acknowledged' }
  /** Without a release, every attempt that begins from now on has the fix. */
  | { readonly state: 'fixed'; readonly release?: string }
  | { readonly state: 'ignored'; readonly until?: IgnoredUntil }

/** A group with its figures. Times are milliseconds on the store's clock. */
export interface GroupRecord extends FailureGroup {
  /** Failed attempts, ever. */
  readonly seen: number
  /** Tasks of this group that wait or run. */
  readonly retrying: number
  /** Dead letters of this group. */
  readonly dead: number
  /** When it was seen for the first time. */
  readonly firstSeenAt: number
  /** When it was last seen. */
  readonly lastSeenAt: number
  /** Failed attempts in each of the last 24 hours, oldest first. The last one is the hour that is not over yet. */
  readonly trend: readonly number[]
  /** Its state, and how it came there. */
  readonly life: GroupLife
}

/** Which groups to list. An absent field matches everything. @inline */
export interface GroupFilter {
  /** The kind of the tasks. */
  readonly kind?: string
  /** The state of the group: one of these. */
  readonly states?: readonly GroupState[]
}

/** Reads failure groups, marks them, and keeps the rules about them. */
export interface GroupStore extends GroupRuleStore {
  /** A page of the groups that match, last seen first, then the higher id. */
  list(filter: GroupFilter, page: PageRequest): Promise<Page<GroupRecord>>
  /** A group; `undefined` if there is none with that id. */
  get(id: string): Promise<GroupRecord | undefined>
  /** Marks a group, on record in the audit log in the same transaction. Returns whether there is such a group. */
  mark(id: string, mark: GroupMark, by: By): Promise<boolean>
}
