import type { Duration } from './duration.js'

/**
 * How many attempts, which delays, which errors, which limits: plain data, so that a policy can be stored, compared,
 * sent and recomputed. Durations are whole milliseconds. Made by `policy()`, which validates it once.
 */
export interface Policy {
  /** Calls in total: 3 means one call and at most two retries. */
  readonly attempts: number
  /** How many times a rate limit may ask to wait without that costing an attempt. */
  readonly deferrals: number
  /** How many workers may die while running the work, until it is given up. A loss costs no attempt. */
  readonly losses: number
  /** The delay after a failed attempt. */
  readonly backoff: Backoff
  /** How that delay is randomised. */
  readonly jitter: Jitter
  /** How long one attempt may run. */
  readonly timeout?: number
  /** The time to live of the whole work: no attempt starts once it is over. */
  readonly ttl?: number
  /** The longest wait that a service may ask for; longer ones are capped. */
  readonly maxRetryAfter: number
  /** Which failures are retried. Absent: the built-in rules decide. */
  readonly retryOn?: 'all' | 'none' | readonly FailureMatch[]
  /** Which failures end the work at once, wherever in a chain of causes they stand. */
  readonly giveUpOn: readonly FailureMatch[]
}

/** The delay after the n-th failed attempt, before jitter. */
export type Backoff =
  | { readonly kind: 'none' }
  | { readonly kind: 'fixed'; readonly base: number }
  | { readonly kind: 'linear'; readonly base: number; readonly max: number }
  | { readonly kind: 'exponential'; readonly base: number; readonly factor: number; readonly max: number }
  /** `U(base, 3 · previous)`, capped. It is already random, so it takes no jitter. */
  | { readonly kind: 'decorrelated'; readonly base: number; readonly max: number }
  /** The first delay, the second and so on; the last one repeats. */
  | { readonly kind: 'list'; readonly delays: readonly number[] }

/** How a delay is randomised, so that work that failed together does not come back together. */
export type Jitter =
  | { readonly kind: 'none' | 'full' | 'equal' }
  /** `d · (1 ± ratio)`: may exceed the backoff's `max` by its ratio. */
  | { readonly kind: 'proportional'; readonly ratio: number }

/**
 * An HTTP status (`429`), a range of them (`'5xx'`), an error's code (`'ECONNRESET'`) or its class, by name.
 *
 * @inline
 */
export type FailureMatch = string | number

/** A policy as you write it: every field is optional, and durations may be text. A `Policy` is a valid input too. */
export interface PolicyInput {
  /** Calls in total: 3 means one call and at most two retries. Default 3. */
  attempts?: number | undefined
  /** How many times a rate limit may ask to wait without that costing an attempt. Default 0. */
  deferrals?: number | undefined
  /** How many workers may die while running the work, until it is given up. A loss costs no attempt. Default 3. */
  losses?: number | undefined
  /** The delay after a failed attempt; a list has the first, the second and so on. Default: exponential, from 1 s to 30 s. */
  backoff?: Exclude<Backoff['kind'], 'list'> | BackoffInput | readonly Duration[] | undefined
  /**
   * How that delay is randomised. Default `full`: anything from 0 to the delay. A `ratio` is for `proportional`,
   * default 0.1.
   */
  jitter?: Jitter['kind'] | { readonly kind: Jitter['kind']; readonly ratio?: number | undefined } | undefined
  /** How long one attempt may run. Default: no limit. */
  timeout?: Duration | undefined
  /** The time to live of the whole work: no attempt starts once it is over. Default: no limit. */
  ttl?: Duration | undefined
  /** The longest wait that a service may ask for; a longer one is cut to this. Default 24 h. */
  maxRetryAfter?: Duration | undefined
  /** Which failures are retried; all others are final. Default: the built-in rules decide. */
  retryOn?: 'all' | 'none' | readonly (FailureMatch | ErrorClass)[] | undefined
  /** Which failures end the work at once, wherever in a chain of causes they stand. Default: none. */
  giveUpOn?: readonly (FailureMatch | ErrorClass)[] | undefined
}

/** A backoff as written in a policy. By default it is exponential, from 1 s to 30 s. @inline */
export interface BackoffInput {
  /** How delays grow. Default `exponential`. */
  readonly kind?: Backoff['kind'] | undefined
  /** The delay after the first failed attempt. Default 1 s. */
  readonly base?: Duration | undefined
  /** How much longer each delay is than the one before: for `exponential`. Default 2. */
  readonly factor?: number | undefined
  /** The delays themselves: for `list`. The last one holds from then on. */
  readonly delays?: readonly Duration[] | undefined
  /** The longest delay, no less than the base: not for `fixed`. Default 30 s. */
  readonly max?: Duration | undefined
}

/** An error class given in code; a policy keeps its name. */
export type ErrorClass = abstract new (...args: never[]) => Error

/** The record of a piece of work before the failure that is being decided on. */
export interface History {
  /** Failed attempts that counted. */
  readonly attempts: number
  /** Waits that a rate limit asked for, and that cost no attempt. */
  readonly deferrals: number
  /** How many workers died while running it. Default 0. */
  readonly losses?: number
  /** When the work began, or was last redriven: its time to live runs from here. */
  readonly startedAt: number
  /** The deadline of whoever asked for the work, whatever the policy says. No attempt starts then or later. */
  readonly deadline?: number
  /** The last delay that the backoff (not a rate limit) asked for. */
  readonly previousDelayMs?: number
}

/** The classifier's judgement of a failure. */
export type Verdict =
  | { readonly class: 'final' | 'retryable'; readonly code: string }
  | { readonly class: 'rate_limited'; readonly code: string; readonly retryAfterMs?: number }

/** The next step. `retry` counts as an attempt, `defer` does not. */
export type Decision =
  | { readonly action: 'retry' | 'defer'; readonly delayMs: number; readonly at: number }
  | { readonly action: 'give_up'; readonly reason: GiveUpReason }

/** Why work was given up, in the order in which the rules are applied. */
export type GiveUpReason =
  | 'aborted'
  | 'final_error'
  | 'losses_exhausted'
  | 'attempts_exhausted'
  | 'ttl_expired'
  | 'deadline_passed'
  | 'budget_empty'
