import type { By } from '../contract/ledger.js'
import type {
  DeathsRow,
  OperationAct,
  OperationMember,
  OperationTally,
  PayloadEdit,
  SurveyRow,
} from '../contract/operation-store.js'
import type { TaskPlace } from '../rules/cursor.js'
import type { ColumnFilter } from './read-port.js'

/** The members of a set that is described by a filter. */
export interface MemberScope {
  readonly filter: Omit<ColumnFilter, 'status'>
  /** Dead members died by this time, living ones were submitted by then. */
  readonly until: number
}

/** A task that an act could move, and was named. */
export interface NamedMember extends OperationMember {
  readonly errorCode: string | undefined
}

/** Members among the tasks behind an id, in the order of their ids, with the last id looked at if there are more tasks. */
export interface LivingPage {
  readonly members: readonly OperationMember[]
  readonly next?: string
}

/** A page of members that an undo has looked at, with the place after it if there are more. */
export interface UndonePage {
  readonly undone: number
  readonly next?: string
}

export type { PayloadEdit }

/** The payload of a dead task. */
export interface DeadPayload {
  readonly id: string
  readonly payload: string
}

/** The primitives of operations. Their records are those of the type `operation`. */
export interface OperationPort {
  /** The tally of an operation that this transaction has locked, and the time. Settlements add to it without the lock. */
  tally(id: string): { readonly tally: OperationTally; readonly now: number }
  /** The tallies of operations; one of which nothing was counted may be missing. */
  tallies(ids: readonly string[]): ReadonlyMap<string, OperationTally>
  dropTallies(ids: readonly string[]): void
  /** The payloads of those tasks that are dead and not items of runs, locked. */
  deadPayloads(ids: readonly string[]): readonly DeadPayload[]
  /** Replaces the payloads of tasks that this transaction has redriven, and keeps the originals in their ledger rows. */
  replacePayloads(edits: readonly PayloadEdit[]): void
  /** Those tasks that an act could move now, in the order given; dead ones that died by `until`. */
  namedMembers(act: OperationAct, ids: readonly string[], until: number): readonly NamedMember[]
  /** Members behind a place, oldest state first; tasks to be cancelled in no particular order, and from no place. */
  members(act: OperationAct, scope: MemberScope, after: TaskPlace, limit: number): readonly OperationMember[]
  /** Members that have not ended among this many tasks behind an id. */
  living(scope: MemberScope, after: string, upTo: number): LivingPage
  /** Counts members, by rows that may agree. */
  survey(act: OperationAct, scope: MemberScope): readonly SurveyRow[]
  deaths(id: string): readonly DeathsRow[]
  /** Puts members back that have not run since, of a page in the order of their ids. */
  restore(id: string, after: string, limit: number, by: By, now: number): UndonePage
}
