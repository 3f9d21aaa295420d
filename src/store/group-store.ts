import type { Page, PageRequest } from './store.js'

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
}

/** Which groups to list. An absent field matches everything. */
export interface GroupFilter {
  /** The kind of the tasks. */
  readonly kind?: string
}

/** Reads failure groups. */
export interface GroupStore {
  /** A page of the groups that match, last seen first, then the higher id. */
  list(filter: GroupFilter, page: PageRequest): Promise<Page<GroupRecord>>
  /** A group; `undefined` if there is none with that id. */
  get(id: string): Promise<GroupRecord | undefined>
}
