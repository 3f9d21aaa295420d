import type { StoreContract } from '../store/internal.js'

/** One cause of a task's state. */
export interface WhyCause {
  /** A stable code, for programs: `lane_paused`, `no_worker`, `attempts_exhausted`. */
  readonly code: string
  /** A sentence, for people. */
  readonly text: string
  /** The values behind the sentence. Times are ISO 8601 text in UTC, `null` means that a value is not on record. */
  readonly facts: Readonly<Record<string, Fact>>
}

/** A value behind a sentence. */
export type Fact = string | number | boolean | null | readonly string[]

/** Something to do. */
export interface WhyAction {
  /** A sentence. */
  readonly text: string
  /** The arguments of the `redrive` command that does it; `null` if no command does. */
  readonly args: readonly string[] | null
}

/** The part of a store that `why` reads. */
export type WhyStore = Pick<
  StoreContract,
  | 'standing'
  | 'workers'
  | 'laneRules'
  | 'lifetimes'
  | 'budgets'
  | 'get'
  | 'count'
  | 'ledger'
  | 'steps'
  | 'policies'
  | 'runs'
  | 'schedules'
  | 'batches'
>

/** The causes of a task's state, and what to do about them. */
export interface Because {
  readonly causes: readonly WhyCause[]
  readonly actions: readonly WhyAction[]
}

/** The tasks before one are counted up to here. */
export const MAX_BEFORE = 10_000
