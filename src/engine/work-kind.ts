import type { ActiveAttempt, Failed, Refused, Returned } from '../attempt/index.js'
import type { KindCodec } from '../codec/internal.js'
import type { Classifier, Policy, Verdict } from '../policy/index.js'
import type { Lane } from '../store/index.js'
import type { ClaimedTask, Cost, Outcome, StoreContract } from '../store/internal.js'
import type { Work } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'
import type { StepOptions, StepWork } from './steps/step.js'

/** A kind of work that an engine runs: tasks of one kind, the events of one queue that wait in a store, or a stage. */
export interface WorkKind {
  /** The kind of its tasks in the store. */
  readonly kind: string
  /** The stage of a pipeline: the category of its items. Default: it belongs to none. */
  readonly stage?: string
  /** The places that it has to itself, as each stage has. Default: it shares those of the worker with other kinds. */
  readonly places?: OwnPlaces
  readonly policy: Policy
  /** The hash under which the ledger names the policy. */
  readonly policyHash: string
  /** Whether its tasks may have a time to live of their own. Default: no. */
  readonly hasOwnTtl?: boolean | undefined
  /** The version of the code, for the ledger. */
  readonly version?: string
  /** Encodes what the store keeps of its tasks. `call` gets them decoded. Default: nothing is encoded. */
  readonly codec?: KindCodec | undefined
  /** The delay that its code asks for after a failure; `undefined` for that of the policy. Never throws. */
  readonly delayAfter?: ((failure: unknown, verdict: Verdict, attempt: number) => number | undefined) | undefined
  /** Called before its first task is claimed. */
  readonly prepare?: () => Promise<void>
  /** Default: every payload is good. */
  readonly check?: PayloadCheck | undefined
  /** The work as sinks see it. */
  describe(task: ClaimedTask): Work
  /** Runs the handler. */
  call(task: ClaimedTask, attempt: ActiveAttempt, record: AttemptRecorder): unknown
  /** Says what the handler's result asks for. If it throws, the attempt has failed. */
  returned(result: unknown, task: ClaimedTask): Returned
  /**
   * Takes a dead letter to a home outside the store, and resolves with the outcome that remains to be settled. Until then
   * the worker still has the task. Rejects if the letter can never be delivered, or when the signal aborts.
   */
  readonly bury?: ((task: ClaimedTask, end: Failed | Refused, signal: AbortSignal) => Promise<Outcome>) | undefined
  /** The kind of the task that follows the death of one of its tasks. Default: none does. */
  readonly onDead?: string | undefined
}

/** Checks a payload. Resolves with the problem, or `undefined`. */
export type PayloadCheck = (payload: unknown) => Promise<string | undefined>

/** The places of a kind of work in each process. */
export interface OwnPlaces {
  /** How many calls it makes at once. */
  readonly concurrency: number
  /** How many tasks a call takes. Default 1. */
  readonly tasksPerCall?: number
  /** Called when it is to make another number of calls at once. */
  readonly onResize?: (concurrency: number) => void
}

/** Brings kinds of work along: a pipeline. */
export interface WorkSource {
  /** The kinds of work that a worker takes on for it. */
  kinds(store: StoreContract, options: KindOptions): readonly WorkKind[]
}

/** The part of a worker's options that kinds of work need. */
export interface KindOptions {
  readonly clock?: Clock | undefined
  readonly classify?: Classifier | undefined
}

/** Takes what a handler tells of its attempt, for the settlement. */
export interface AttemptRecorder {
  /** How much it really took from the buckets of a shared limit. Adds to what it has reported before. */
  used(cost: Cost): void
  /** The joint call that decided it, and how many calls it failed in before that one. */
  wasPartOf(call: string, earlierFailures: number): void
  /** Runs a step of the handler, unless its result is on record. */
  step(name: string, work: StepWork<unknown>, options?: StepOptions): Promise<unknown>
  /** How far the attempt has come: a number from 0 to 1. */
  progress(fraction: number, text?: string): void
  /** A line for whoever looks at the attempt. */
  log(text: string): void
}

/** A task as sinks see it. */
export function taskWork({ id, kind, category, key }: Lane & { readonly id: string }): Work {
  return { kind: 'task', id, name: kind, category: category || undefined, tenantId: key || undefined }
}
