import {
  type ActiveAttempt,
  currentTracer,
  type End,
  type Environment,
  type Failed,
  type HandlerSteps,
  RefusedError,
  type StepName,
} from '../../attempt/index.js'
import { type KindCodec, plainValue } from '../../codec/internal.js'
import { extendPolicy, type GiveUpReason, OptionError, type Policy } from '../../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../../policy/internal.js'
import type { ClaimedTask, StepRecord } from '../../store/internal.js'
import type { Work } from '../../telemetry/index.js'
import { LazyAbort, sleep } from '../../time/index.js'
import { readableError, stepId } from '../decoded-records.js'
import { LeaseLostError, StepError, StepFailedError } from '../errors.js'
import { recordedText } from '../hidden-failure.js'
import { causeOf } from './cause-of.js'
import type { StepOptions, StepWork } from './step.js'
import { StepAttempt, type StepEnd } from './step-attempt.js'
import type { StepRecords } from './step-records.js'
import {
  type AttemptTimes,
  afterFailure,
  afterRefusal,
  afterSuccess,
  continued,
  historyOf,
  recordedFailure,
} from './step-state.js'
import { stepToWaitFor, type WaitingStep } from './waiting-step.js'

/** A step that waits for longer puts its task back to waiting, so that another task has its place in the worker meanwhile. */
const LONGEST_WAIT_MS = 5000

/** A quote would end the name within the text of an error, and marks of direction would turn that text around. */
const NAME = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}']{1,200}$/u

const OPTIONS: KnownOptions<StepOptions> = { policy: 'object', timeout: '' }

/** The attempt at a task that steps belong to. */
export interface StepOwner {
  readonly task: ClaimedTask
  readonly codec: KindCodec | undefined
  /** The stage that an item is in. Stages may have steps of the same name. */
  readonly stage: string | undefined
  readonly policy: Policy
  now(): number
  work(): Work
  callOff(reason: unknown): void
}

/** The parts that all steps of a worker share. */
export interface StepEnvironment extends Environment {
  readonly worker: string
  readonly steps: StepRecords
}

/**
 * The steps of one attempt at a task. A call of a step ends in one of these ways:
 *
 * - **done before**: its result is on record, and is returned. Nothing runs.
 * - **done**: it has run, and its result is on record, under the fence of the task.
 * - **to be repeated**: it has failed, and that is on record. It waits here if its delay is short. Otherwise its promise rejects,
 *   and the attempt ends: the task waits until the step is due, whatever the handler makes of that error.
 * - **given up**: its promise rejects with a `StepFailedError`. If the handler fails with that, or with an error that has it
 *   among its causes, the task is dead. A handler may catch it and go on; in later attempts the step rejects again at once.
 * - **refused**: its name is taken in this attempt, or the handler has ended. That is a bug, and final.
 * - **cut short**: the signal of the attempt has aborted, or another worker has the task. Nothing is recorded.
 */
export class TaskSteps implements HandlerSteps {
  readonly #owner: StepOwner
  readonly #attempt: ActiveAttempt
  readonly #environment: StepEnvironment
  /** The names that this attempt has asked for, in their order. */
  readonly #asked: string[] = []
  /** Those that cannot be asked for again. */
  readonly #taken = new Set<string>()
  /** The steps under way, by name. */
  readonly #open = new Map<string, Promise<unknown>>()
  /** The records that were made while another step ran. That may be around them, and be repeated in this attempt. */
  readonly #made = new Map<string, StepRecord>()
  readonly #underWay = new Set<Promise<void>>()
  readonly #running = new Set<StepAttempt>()
  readonly #waiting: WaitingStep[] = []
  /** The errors of steps of this attempt: those that were given up with their ends, and those that wait. */
  readonly #errors = new Map<unknown, Failed | 'waits'>()
  /** Ends the asking of a store that is away. */
  readonly #ending = new LazyAbort()
  /** Ends the waiting in this process. */
  readonly #closing = new LazyAbort()
  #recorded: Promise<ReadonlyMap<string, StepRecord>> | undefined
  #known: ReadonlyMap<string, StepRecord> = new Map()
  #isClosed: boolean
  /** The first failure of a step that the handler had not awaited when it ended. */
  #unseen: { readonly failure: unknown } | undefined

  constructor(owner: StepOwner, attempt: ActiveAttempt, environment: StepEnvironment) {
    this.#owner = owner
    this.#attempt = attempt
    this.#environment = environment
    this.#isClosed = attempt.hasEnded
  }

  /** Steps on record that the handler has not asked for. */
  get unused(): readonly string[] {
    const ofStage = this.#nameOf('')
    const asked = new Set(this.#asked)
    return [...this.#known.keys()].filter(name => name.startsWith(ofStage) && !asked.has(name))
  }

  /** Runs a step, unless its result is on record. */
  run(name: string, work: StepWork<unknown>, options: StepOptions = {}): Promise<unknown> {
    const end = this.#run(name, work, options)
    const watched: Promise<void> = end.then(
      () => void this.#underWay.delete(watched),
      failure => {
        this.#underWay.delete(watched)
        if (this.#isClosed) this.#unseen ??= { failure }
      },
    )
    this.#underWay.add(watched)
    return end
  }

  close(): Promise<unknown> | undefined {
    this.#isClosed = true
    this.#closing.abort(undefined)
    return this.#underWay.size === 0 ? undefined : Promise.all(this.#underWay)
  }

  end(failed?: { readonly failure: unknown }): End | undefined {
    if (failed === undefined && this.#unseen !== undefined) throw this.#unseen.failure
    const cause = failed && this.#stepErrorIn(failed.failure)
    return cause === undefined || cause === 'waits' ? stepToWaitFor(this.#waiting, this.#owner.now()) : cause
  }

  abort(reason: unknown): void {
    this.#ending.abort(reason)
    this.#closing.abort(reason)
    for (const step of this.#running) step.callOff(reason)
  }

  async #run(ownName: string, work: StepWork<unknown>, options: StepOptions): Promise<unknown> {
    const name = this.#begin(ownName, work)
    // The step around it is repeated, and has not awaited it.
    const before = this.#open.get(name)
    if (before !== undefined) return before
    const end = this.#upToItsEnd(name, work, options)
    this.#open.set(name, end)
    try {
      return await end
    } finally {
      this.#open.delete(name)
    }
  }

  async #upToItsEnd(name: string, work: StepWork<unknown>, options: StepOptions): Promise<unknown> {
    const policy = this.#policyOf(options)
    const record = this.#made.get(name) ?? (await this.#load()).get(name)
    if (record?.isDone) return this.#resultOf(record)
    let step = continued(name, record, this.#owner.task.startedAt, this.#owner.now())
    if (step.gaveUp !== undefined) throw await this.#givenUpBefore(step, step.gaveUp, policy)
    for (;;) {
      await this.#untilDue(step, policy)
      const asked = this.#asked.length
      const { end, ...times } = await this.#attemptAt(step, policy, work)
      switch (end.type) {
        case 'succeeded':
          return this.#resultOf(await this.#record(afterSuccess(step, this.#encoded(step.name, end.value), times)))
        case 'failed':
          step = await this.#failed(step, policy, end, times)
          // It asks again for the steps within it.
          for (const within of this.#asked.slice(asked)) this.#taken.delete(within)
          break
        case 'refused':
          throw await this.#givenUpBefore(await this.#record(afterRefusal(step, end.reason)), end.reason, policy)
        case 'stopped':
          throw end.reason
        case 'advanced':
        case 'skipped':
        case 'later':
          throw new TypeError(`A step cannot end as '${end.type}'.`)
      }
    }
  }

  /** Returns the name under which the step is on record. */
  #begin(ownName: string, work: StepWork<unknown>): string {
    if (typeof ownName !== 'string' || !NAME.test(ownName)) {
      const rule = '1 to 200 characters long, without control characters and single quotes'
      throw new OptionError('name', `The name of a step must be ${rule}, got ${quoted(ownName)}.`)
    }
    const name = this.#nameOf(ownName)
    if (typeof work !== 'function')
      throw new OptionError('work', `The step '${name}' has no function. Pass it as the second argument.`)
    this.#checkOpen(name)
    if (this.#taken.has(name)) {
      const advice = `Give each step a name of its own, such as '${name}:2' in a loop.`
      throw new StepError('step_repeated', name, `The step '${name}' was already used in this attempt. ${advice}`)
    }
    this.#taken.add(name)
    this.#asked.push(name)
    return name
  }

  #nameOf(ownName: string): string {
    const { stage } = this.#owner
    return stage === undefined ? ownName : `${stage}/${ownName}`
  }

  /** Throws if no step may begin any more. */
  #checkOpen(name: string): void {
    this.#throwIfAborted()
    if (!this.#isClosed) return
    const advice = 'Await every step in the handler.'
    const text = `The step '${name}' began after its handler had ended, and was not run. ${advice}`
    // Most likely nobody waits for its promise either.
    process.emitWarning(text, { type: 'RedriveWarning', code: 'step_too_late' })
    throw new StepError('step_too_late', name, text)
  }

  #throwIfAborted(): void {
    const { aborted } = this.#attempt
    if (aborted !== undefined) throw aborted.reason
  }

  /** The policy of the task, changed by that of the step. Its timeout is for the handler as a whole. */
  #policyOf(options: StepOptions): Policy {
    checkOptions('A step', options, OPTIONS)
    const { timeout: _, ...base } = this.#owner.policy
    const { policy, timeout = policy?.timeout } = options
    return policy === undefined && timeout === undefined ? base : extendPolicy(base, { ...policy, timeout })
  }

  async #load(): Promise<ReadonlyMap<string, StepRecord>> {
    const { id, hasSteps } = this.#owner.task
    if (!hasSteps) return this.#known
    this.#recorded ??= this.#environment.steps.of(id, () => this.#ending.signal)
    this.#known = await this.#recorded
    return this.#known
  }

  /** Waits until the step is due, if that is soon. Otherwise its task has to wait. `failed` is its last attempt, if it was made here. */
  async #untilDue(step: StepRecord, policy: Policy, failed?: Failed): Promise<void> {
    const { nextAt = 0 } = step
    const waitMs = nextAt - this.#owner.now()
    // A rate limit holds the lane of the task, and that takes a settlement.
    const isHeld = failed?.decision.action === 'defer'
    if (waitMs <= 0 && !isHeld) return
    if (waitMs > LONGEST_WAIT_MS || isHeld) throw await this.#waits(step, policy, failed)
    try {
      await sleep(waitMs, this.#environment.clock, this.#closing.signal)
    } catch {
      this.#throwIfAborted()
      throw await this.#waits(step, policy, failed)
    }
  }

  /** The task is to wait for the step. */
  async #waits({ name, nextAt = 0 }: StepRecord, policy: Policy, failed: Failed | undefined): Promise<StepError> {
    this.#waiting.push({ step: await this.#named(name, policy), nextAt, failed })
    const advice = 'Its task goes back to waiting. Let this error pass through the handler.'
    const text = `The step '${name}' waits for its next attempt until ${new Date(nextAt).toISOString()}. ${advice}`
    const error = new StepError('step_waits', name, text)
    this.#errors.set(error, 'waits')
    return error
  }

  async #attemptAt(step: StepRecord, policy: Policy, work: StepWork<unknown>): Promise<StepEnd & AttemptTimes> {
    this.#throwIfAborted()
    const owner = this.#owner
    const startedAt = owner.now()
    const plan = {
      name: step.name,
      key: `${owner.task.id}/${step.name}`,
      policy,
      history: historyOf(step),
      traceparent: currentTracer()?.active(),
      codec: owner.codec,
      now: () => owner.now(),
      work: () => stepWork(owner.work(), step.name),
      isOfOtherStep: (failure: unknown) => this.#stepErrorIn(failure) !== undefined,
    }
    const attempt = new StepAttempt(plan, work, this.#environment)
    this.#running.add(attempt)
    attempt.start()
    const end = await attempt.ending
    this.#running.delete(attempt)
    return { ...end, startedAt, worker: this.#environment.worker }
  }

  /** Records a failed attempt. Returns the step once it is due again. Throws if that is not soon, or never. */
  async #failed(step: StepRecord, policy: Policy, end: Failed, times: AttemptTimes): Promise<StepRecord> {
    const named = await this.#named(step.name, policy)
    const { task, codec } = this.#owner
    const error = recordedText(end.failure, task.id, codec)
    const next = await this.#record(afterFailure(step, end, error, named.policyHash, times))
    const failed = { ...end, step: named }
    if (next.gaveUp !== undefined) throw this.#givenUp(failed, named, next.gaveUp)
    await this.#untilDue(next, policy, failed)
    return next
  }

  /** A step that was given up by an earlier attempt at its task, or before an attempt of its own. Its last failure is on record. */
  async #givenUpBefore({ name, ledger }: StepRecord, reason: GiveUpReason, policy: Policy): Promise<StepFailedError> {
    const { verdict = { class: 'final', code: reason }, error, random = 0 } = ledger.at(-1) ?? {}
    const failure = error === undefined ? new RefusedError(reason) : this.#failureOf(error)
    const step = await this.#named(name, policy)
    return this.#givenUp(
      { type: 'failed', failure, verdict, random, decision: { action: 'give_up', reason }, step },
      step,
      reason,
    )
  }

  #givenUp(failed: Failed, { name }: StepName, reason: GiveUpReason): StepFailedError {
    const error = new StepFailedError(name, reason, failed.verdict.code, failed.failure)
    this.#errors.set(error, failed)
    return error
  }

  async #record(step: StepRecord): Promise<StepRecord> {
    const { steps, worker } = this.#environment
    if (await steps.record(this.#owner.task, step, () => this.#ending.signal)) {
      if (this.#running.size > 0) this.#made.set(step.name, step)
      return step
    }
    this.#throwIfAborted()
    const lost = new LeaseLostError(worker)
    // Another worker has the task, so the rest of the handler would be done twice.
    this.#owner.callOff(lost)
    throw lost
  }

  async #named(name: string, policy: Policy): Promise<StepName> {
    return { name, policyHash: await this.#environment.steps.keep(policy, () => this.#ending.signal) }
  }

  #failureOf(error: string): Error {
    const { task, codec } = this.#owner
    return recordedFailure(readableError(error, task.id, codec))
  }

  #encoded(name: string, result: string | undefined): string | undefined {
    const { task, codec } = this.#owner
    return result === undefined ? undefined : (codec?.encode(result, 'step result', stepId(task.id, name)) ?? result)
  }

  #resultOf({ name, result }: StepRecord): unknown {
    const { task, codec } = this.#owner
    if (result === undefined) return undefined
    if (codec === undefined) return plainValue(result, task.kind)
    return JSON.parse(codec.decode(result, 'step result', stepId(task.id, name)))
  }

  #stepErrorIn(failure: unknown): Failed | 'waits' | undefined {
    return causeOf(failure, cause => this.#errors.get(cause))
  }
}

/** A step as sinks see it. */
function stepWork(task: Work, name: string): Work {
  return { ...task, kind: 'step', id: `${task.id}/${name}`, name: `${task.name}/${name}`, step: name }
}
