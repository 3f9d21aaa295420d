import type { Classifier, Decision, GiveUpReason, History, Policy, Verdict } from '../policy/index.js'
import type { Sink, Work } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'

/** One attempt to make: everything that the kernel decides from, and what sinks are told. */
export interface Plan {
  /** The identity of the work, from which its jitter is derived. */
  readonly seed: string
  readonly policy: Policy
  /** The record before this attempt. */
  readonly history: History
  /** The delay that the code of the work asks for after a failure; `undefined` for that of the policy. */
  delayAfter?(failure: unknown, verdict: Verdict): number | undefined
  /** The present time, on the clock of `history`. */
  now(): number
  /** The work that events are about. Called only where there is a sink, or a tracer. */
  work(): Work
  /** The span that the work came from, as a `traceparent`. */
  readonly traceparent: string | undefined
  /** Nothing was tried before, so that the attempt is part of the trace that the work came from. */
  readonly isFirst: boolean
  /** The id of the attempt's trace, once its span has begun. */
  readonly traceId?: string | undefined
}

/** The parts that all attempts of a worker or a consumer share. */
export interface Environment {
  readonly clock: Clock
  readonly sink?: Sink | undefined
  readonly classify?: Classifier | undefined
}

/** The kernel's answer to a failure, with everything that it was made from. */
export interface Judgement {
  readonly failure: unknown
  readonly verdict: Verdict
  readonly random: number
  /** The delay that the code of the work asked for, if it did. */
  readonly askedMs?: number | undefined
  readonly decision: Decision
}

/** The next step that the result of a handler asks for. */
export type Returned =
  /** The work goes on at another stage, with this value. */
  | {
      readonly type: 'advanced'
      readonly to: string
      readonly value: string
      readonly cost?: Readonly<Record<string, number>> | undefined
    }
  /** `reason` says why the value was not kept. */
  | { readonly type: 'succeeded'; readonly value?: string | undefined; readonly reason?: string | undefined }
  | { readonly type: 'skipped'; readonly reason: string }
  /** `step` waits for its next attempt. */
  | { readonly type: 'later'; readonly delayMs: number; readonly step?: StepName | undefined }

/** A step of a handler, and the hash of the policy that decides on it. */
export interface StepName {
  readonly name: string
  readonly policyHash: string
}

/** The handler failed, its time was up, or its worker died. */
export interface Failed extends Judgement {
  readonly type: 'failed'
  /** Set if the worker died: a retry after that is no backoff. */
  readonly isLoss?: boolean
  /** The step of the handler that failed. It was decided on under its own policy, and the handler's attempt ends by that. */
  readonly step?: StepName
}

/** The attempt was not made: it would have begun too late. */
export interface Refused {
  readonly type: 'refused'
  readonly reason: GiveUpReason
}

/** The attempt was cut short from outside, and does not count: the worker stops, or somebody cancelled the work. */
export interface Stopped {
  readonly type: 'stopped'
  readonly reason: unknown
}

/** The steps of a handler: attempts of their own, which its attempt outlives. */
export interface HandlerSteps {
  /**
   * The handler has ended: no more steps begin, and none waits any longer. Resolves when those under way have ended; `undefined`
   * if there are none.
   */
  close(): Promise<unknown> | undefined
  /**
   * The end that they ask for, whatever the handler made of it; `undefined` if its own end holds. Throws the failure of a step
   * that nobody has awaited.
   */
  end(failed?: { readonly failure: unknown }): End | undefined
  /** The signal of the handler's attempt has aborted. */
  abort(reason: unknown): void
}

/** How an attempt ended. There is exactly one end; whatever happens later is ignored. */
export type End = Returned | Failed | Refused | Stopped
