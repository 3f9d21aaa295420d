import type { Environment } from '../../attempt/index.js'
import { ActiveAttempt, type Driver, type End, type HandlerSteps, type Returned } from '../../attempt/index.js'
import type { KindCodec } from '../../codec/internal.js'
import type { History, Policy } from '../../policy/index.js'
import { plainJson, problemOf } from '../../policy/internal.js'
import type { Work } from '../../telemetry/index.js'
import { StepError } from '../errors.js'
import { toldEnd } from '../hidden-failure.js'
import { isLater, isSkip } from '../outcomes.js'
import type { StepContext, StepWork } from './step.js'

/** A longer result belongs in a file or a table of its own, with a reference to it in the step. */
const MAX_RESULT_BYTES = 2 ** 18

/** An attempt at a step to make. */
export interface StepPlan {
  readonly name: string
  /** The idempotency key of the step, from which its jitter is derived too. */
  readonly key: string
  readonly policy: Policy
  readonly history: History
  readonly traceparent: string | undefined
  /** That of the task. */
  readonly codec: KindCodec | undefined
  now(): number
  work(): Work
  /** Whether a failure is that of a step within this one, which has been decided on. */
  isOfOtherStep(failure: unknown): boolean
}

/** The end of an attempt at a step, and when it was certain. */
export interface StepEnd {
  readonly end: End
  readonly endedAt: number
}

/** One attempt at a step. */
export class StepAttempt implements Driver {
  readonly seed: string
  readonly policy: Policy
  readonly history: History
  readonly traceparent: string | undefined
  readonly isFirst = true
  readonly steps: HandlerSteps
  readonly ending: Promise<StepEnd>
  readonly #plan: StepPlan
  readonly #call: StepWork<unknown>
  readonly #active: ActiveAttempt
  #resolve: (end: StepEnd) => void = () => {}

  constructor(plan: StepPlan, call: StepWork<unknown>, environment: Environment) {
    this.seed = plan.key
    this.policy = plan.policy
    this.history = plan.history
    this.traceparent = plan.traceparent
    this.#plan = plan
    this.#call = call
    this.ending = new Promise(resolve => {
      this.#resolve = resolve
    })
    // A step within a step belongs to the handler as all of them do. Its end is not that of the one around it.
    this.steps = {
      close: () => undefined,
      end: failed =>
        failed !== undefined && plan.isOfOtherStep(failed.failure)
          ? { type: 'stopped', reason: failed.failure }
          : undefined,
      abort: () => {},
    }
    this.#active = new ActiveAttempt(this, environment)
  }

  now(): number {
    return this.#plan.now()
  }

  work(): Work {
    return this.#plan.work()
  }

  start(): void {
    this.#active.start()
  }

  /** Asks the function to end, since the attempt at its task has to. Nothing is charged to the step for that. */
  callOff(reason: unknown): void {
    this.#active.callOff(reason)
  }

  call(attempt: ActiveAttempt): unknown {
    const { key } = this.#plan
    const context: StepContext = {
      key,
      attempt: attempt.number,
      // Made when it is first read: few functions look at it, and it costs more than the rest.
      get signal() {
        return attempt.signal
      },
    }
    return this.#call(context)
  }

  /** Throws if the result cannot be recorded: then the step has failed. */
  returned(result: unknown): Returned {
    const text = this.#json(result)
    const bytes = text === undefined ? 0 : Buffer.byteLength(text)
    if (bytes > MAX_RESULT_BYTES)
      throw this.#notRecordable(`it is ${bytes} bytes of JSON, and ${MAX_RESULT_BYTES} are allowed`)
    return { type: 'succeeded', value: text }
  }

  told(end: End): End {
    return toldEnd(end, this.#plan.codec)
  }

  ended(end: End, { endedAt }: ActiveAttempt): void {
    this.#resolve({ end, endedAt })
  }

  #json(result: unknown): string | undefined {
    if (isLater(result) || isSkip(result)) throw this.#notRecordable('later() and skip() are for the handler to return')
    try {
      return plainJson(result)
    } catch (error) {
      throw this.#notRecordable(problemOf(error))
    }
  }

  #notRecordable(problem: string): StepError {
    const { name } = this.#plan
    const text = `The result of the step '${name}' cannot be recorded: ${problem}.`
    const advice = 'Return plain data, and only what later code needs.'
    return new StepError('step_result_invalid', name, `${text} ${advice}`)
  }
}
