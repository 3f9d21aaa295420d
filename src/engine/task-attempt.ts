import {
  ActiveAttempt,
  type Driver,
  type End,
  type Failed,
  judgeLoss,
  type Refused,
  type Returned,
  report,
} from '../attempt/index.js'
import type { KindCodec } from '../codec/internal.js'
import type { PatternRules } from '../fingerprint/internal.js'
import type { History, Policy, Verdict } from '../policy/index.js'
import {
  type AttemptNotes,
  type ClaimedTask,
  type Cost,
  type Outcome,
  type Settlement,
  sumOfCosts,
  type WorkerReport,
} from '../store/internal.js'
import type { Work } from '../telemetry/index.js'
import { traceIdOf } from '../telemetry/internal.js'
import { followers } from './death.js'
import { decodedInput } from './decoded-records.js'
import { encodedReturn } from './encoded-return.js'
import { TaskCancelledError } from './errors.js'
import { recordedNote, toldEnd } from './hidden-failure.js'
import { Notebook } from './notebook.js'
import { entryOf, outcomeOf } from './settlement.js'
import type { StepOptions, StepWork } from './steps/step.js'
import { type StepEnvironment, TaskSteps } from './steps/task-steps.js'
import { type AttemptRecorder, taskWork, type WorkKind } from './work-kind.js'

/** The parts that all attempts of an engine share. */
export interface TaskEnvironment extends StepEnvironment {
  readonly release: string | undefined
  /** The rules by which failures are grouped. */
  readonly grouping: { readonly rules: PatternRules }
  /** Takes the settlement of an attempt. Called once for each. */
  readonly settle: (attempt: TaskAttempt, settlement: Settlement) => void
}

/** When a claim was answered, on the store's clock, and when it was sent, on the monotonic one. */
export interface ClaimTimes {
  readonly now: number
  readonly sentAt: number
}

/** One attempt at a claimed task: hands the task to the attempt, and the end of the attempt to the store. */
export class TaskAttempt implements Driver, AttemptRecorder {
  readonly task: ClaimedTask
  readonly policy: Policy
  history: History
  traceId: string | undefined
  readonly #kind: WorkKind
  readonly #environment: TaskEnvironment
  readonly #claim: ClaimTimes
  readonly #active: ActiveAttempt
  #work: Work | undefined
  /** A lost task ends without its attempt having begun, so the attempt cannot know. */
  #hasEnded = false
  /** Set while a dead letter is on its way to a home outside the store. */
  #burial: AbortController | undefined
  #used: Cost | undefined
  #steps: TaskSteps | undefined
  #notebook: Notebook | undefined
  #call: string | undefined

  constructor(task: ClaimedTask, kind: WorkKind, claim: ClaimTimes, environment: TaskEnvironment) {
    this.task = task
    this.policy = kind.policy
    this.history = historyOf(task)
    this.#kind = kind
    this.#claim = claim
    this.#environment = environment
    this.#active = new ActiveAttempt(this, environment)
  }

  get seed(): string {
    const { id } = this.task
    const { stage } = this
    return stage === undefined ? id : stageSeed(id, stage)
  }

  /** The stage that an item is in. */
  get stage(): string | undefined {
    return this.#kind.stage
  }

  /**
   * The store's clock. It counts from when the claim was sent, so it is never behind: a retry that is due by it is due by
   * the store's clock too.
   */
  now(): number {
    const { now, sentAt } = this.#claim
    return now + Math.round(this.#environment.clock.monotonic() - sentAt)
  }

  work(): Work {
    this.#work ??= this.#describe()
    return this.#work
  }

  get traceparent(): string | undefined {
    return this.task.traceparent
  }

  get isFirst(): boolean {
    return this.task.isFirst
  }

  get codec(): KindCodec | undefined {
    return this.#kind.codec
  }

  /** The steps of its handler, once it has begun one. */
  get steps(): TaskSteps | undefined {
    return this.#steps
  }

  /** Whether its handler goes on although it was told to end. */
  get isOverrunning(): boolean {
    return this.#active.overrun !== undefined
  }

  start(): void {
    if (!this.task.isUndecided) return this.#active.start()
    const end = judgeLoss(this)
    this.ended(end)
    report(this, end, 0, this.#environment)
  }

  /** Cancels the attempt: the handler's signal aborts, and its result no longer matters. */
  cancel(): void {
    if (!this.#hasEnded) this.#active.cancel(new TaskCancelledError(this.task.id))
  }

  /** Hands the task back uncounted: the worker cannot wait any longer. */
  release(reason: unknown): void {
    this.#burial?.abort(reason)
    this.#buried({ type: 'released' })
    if (!this.#hasEnded) this.#active.stop(reason)
  }

  /** Asks the handler to end, since another worker may have the task by now. Nothing is charged to the task for that. */
  callOff(reason: unknown): void {
    this.#active.callOff(reason)
  }

  call(attempt: ActiveAttempt): unknown {
    const { codec } = this.#kind
    return this.#kind.call(codec === undefined ? this.task : decodedInput(this.task, codec), attempt, this)
  }

  returned(result: unknown): Returned {
    const returned = this.#kind.returned(result, this.task)
    const { codec } = this.#kind
    return codec === undefined ? returned : encodedReturn(returned, this.task.id, codec)
  }

  delayAfter(failure: unknown, verdict: Verdict): number | undefined {
    return this.#kind.delayAfter?.(failure, verdict, this.history.attempts + 1)
  }

  told(end: End): End {
    return toldEnd(end, this.#kind.codec)
  }

  used(cost: Cost): void {
    this.#used = this.#used === undefined ? cost : sumOfCosts([this.#used, cost])
  }

  step(name: string, work: StepWork<unknown>, options?: StepOptions): Promise<unknown> {
    this.#steps ??= new TaskSteps(this, this.#active, this.#environment)
    return this.#steps.run(name, work, options)
  }

  progress(fraction: number, text?: string): void {
    this.#notebook ??= this.#newNotebook()
    this.#notebook.progress(fraction, text)
  }

  log(text: string): void {
    this.#notebook ??= this.#newNotebook()
    this.#notebook.log(text, this.now())
  }

  #newNotebook(): Notebook {
    const { id, kind } = this.task
    return new Notebook(kind, text => recordedNote(text, id, this.#kind.codec))
  }

  /** The notes of its handler, if it left any. */
  get notebook(): Notebook | undefined {
    return this.#notebook
  }

  wasPartOf(call: string, earlierFailures: number): void {
    this.#call = call
    if (earlierFailures > 0) this.history = { ...this.history, attempts: this.history.attempts + earlierFailures }
  }

  ended(end: End): void {
    this.#hasEnded = true
    const { bury } = this.#kind
    const outcome = outcomeOf(end)
    if (bury !== undefined && outcome.type === 'dead' && (end.type === 'failed' || end.type === 'refused'))
      this.#bury(end, outcome, bury)
    else this.#settle(outcome, end)
  }

  /** Where the letter can never be delivered, the store keeps it. */
  #bury(end: Failed | Refused, outcome: Outcome, bury: NonNullable<WorkKind['bury']>): void {
    this.#burial = new AbortController()
    bury(this.task, end, this.#burial.signal).then(
      buried => this.#buried(buried, end),
      () => this.#buried(outcome, end),
    )
  }

  #buried(outcome: Outcome, end?: End): void {
    if (this.#burial === undefined) return
    this.#burial = undefined
    this.#settle(outcome, end)
  }

  #settle(outcome: Outcome, end: End | undefined): void {
    const { id, token } = this.task
    const { worker, release, grouping, settle } = this.#environment
    const { version, policyHash, codec } = this.#kind
    const attempt = this.history.attempts + 1
    const startedAt = this.#claim.now
    const endedAt = this.#active.endedAt
    // Written out, since copying an object for every attempt would cost more than the rest of this function.
    const about =
      version === undefined && this.#call === undefined
        ? { attempt, startedAt, endedAt, worker, release }
        : { attempt, startedAt, endedAt, worker, release, version, call: this.#call }
    const made = end && entryOf(end, this.task, about, policyHash, grouping.rules, codec)
    const notes = made && this.#notes(end)
    const entry = notes === undefined ? made : made && { ...made, notes }
    const trace = this.#ownTrace(outcome)
    const traced = entry === undefined || trace === undefined ? entry : { ...entry, trace }
    const ifDead = outcome.type === 'dead' ? followers(this.#kind.onDead, this.task, outcome.reason, traced) : undefined
    settle(this, { id, token, outcome, attempt: traced, used: this.#used, ifDead })
  }

  /** The notes that the ledger keeps: how far it had come, if it failed or was cut short, and its steps. */
  #notes(end: End): AttemptNotes | undefined {
    const used = this.#used
    const askedMs = end.type === 'failed' ? end.askedMs : undefined
    if (this.#steps === undefined && this.#notebook === undefined && used === undefined && askedMs === undefined)
      return undefined
    const told = end.type === 'failed' || end.type === 'stopped' ? this.#notebook?.notes() : undefined
    const step = 'step' in end ? end.step?.name : undefined
    const isOver = end.type === 'succeeded' || end.type === 'advanced'
    const unusedSteps = isOver ? (this.#steps?.unused ?? []) : []
    const notes = {
      ...told,
      ...(askedMs !== undefined && { askedMs }),
      ...(used !== undefined && { used }),
      ...(step !== undefined && { step }),
      ...(unusedSteps.length > 0 && { unusedSteps }),
    }
    return Object.keys(notes).length === 0 ? undefined : notes
  }

  /** The trace that the ledger is told of. It knows that a task that succeeds at once is in the trace that enqueued it. */
  #ownTrace({ type }: Outcome): string | undefined {
    if (this.traceId === undefined) return undefined
    const isKnown = type === 'succeeded' && this.isFirst && this.#kind.stage === undefined
    return isKnown && this.traceId === traceIdOf(this.traceparent) ? undefined : this.traceId
  }

  #describe(): Work {
    try {
      return this.#kind.describe(this.task)
    } catch {
      // Only sinks are told of it, and they never touch the work.
      return taskWork(this.task)
    }
  }
}

/** About the most that a report has of notes, in bytes of JSON. All attempts of a worker share that. */
const MAX_REPORTED_BYTES = 2 ** 20

/** The notes of running attempts, for a heartbeat. */
export function liveNotes(attempts: ReadonlySet<TaskAttempt>): WorkerReport['notes'] {
  const noted = [...attempts].flatMap(({ task, notebook }) => (notebook ? [{ task, notebook }] : []))
  if (noted.length === 0) return undefined
  const maxBytes = MAX_REPORTED_BYTES / noted.length
  return Object.fromEntries(
    noted.map(({ task, notebook }) => [task.id, { since: task.changedAt, notes: notebook.notes(maxBytes) }]),
  )
}

/** The identity of an item at a stage, from which its jitter is derived: counters start afresh at each stage. */
function stageSeed(id: string, stage: string): string {
  return `${id}/${stage}`
}

/** Returns the history before this attempt. The store has already counted the loss of an undecided task. */
function historyOf({ attempts, deferrals, startedAt, previousDelayMs, losses, isUndecided }: ClaimedTask): History {
  return { attempts, deferrals, losses: isUndecided ? losses - 1 : losses, startedAt, previousDelayMs }
}
