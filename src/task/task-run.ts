import {
  advance,
  type Classifier,
  classify,
  type Decision,
  decide,
  FinalError,
  type History,
  identityRandom,
  RetryableError,
  TimeoutError,
  type Verdict,
} from '../policy/index.js'
import { plainJson } from '../policy/internal.js'
import type { AttemptEntry, ClaimedTask, Outcome, Settlement, Store } from '../store/index.js'
import { type AttemptEvent, failureText, type Sink, type Work } from '../telemetry/index.js'
import { emit } from '../telemetry/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'
import type { TaskDefinition } from './define-task.js'
import { PayloadError, TaskCancelledError } from './errors.js'
import { isLater, isSkip } from './outcomes.js'
import { persistently } from './persistently.js'
import { validate } from './standard-schema.js'
import { TaskContext } from './task-context.js'

/** What all the runs of a worker share. */
export interface RunEnvironment {
  readonly store: Pick<Store, 'once'>
  readonly worker: string
  readonly clock: Clock
  readonly sink: Sink | undefined
  readonly classify: Classifier | undefined
  /** Takes what the run came to. Called once. */
  readonly settle: (run: TaskRun, settlement: Settlement) => void
}

/** What an event says besides what it is about. */
type Details<E = AttemptEvent> = E extends AttemptEvent ? Omit<E, 'work' | 'at' | 'attempt' | 'maxAttempts'> : never

/** A longer result belongs into a file or a table of its own. */
const MAX_RESULT = 2 ** 20

/** What a worker's death says of the attempt that died with it. */
const LOST: Verdict = { class: 'retryable', code: 'lost' }

/**
 * One run of a claimed task: from its start to what it came to. It ends when the handler settles, when its time is up,
 * when it is cancelled, or when its worker hands it back; whichever comes first counts, and what comes later is ignored.
 */
export class TaskRun implements Sleeper {
  private readonly context: TaskContext
  private readonly startedAt: number
  private timer: Timer | undefined = undefined
  /** What sinks are told of; made when the first of them is told. */
  private work: Work | undefined = undefined
  private hasEnded = false
  /** It ended as a dead letter that is on its way to where it belongs. */
  private isBurying = false

  constructor(
    readonly task: ClaimedTask,
    private readonly definition: TaskDefinition,
    private readonly environment: RunEnvironment,
    /** The store's clock when the task was claimed. */
    private readonly claimedAt: number,
  ) {
    this.context = new TaskContext(task, environment.store)
    this.startedAt = environment.clock.monotonic()
  }

  start(): void {
    if (this.task.isUndecided) return void this.decideOnLoss()
    const { policy } = this.definition
    const { clock } = this.environment
    this.tell({ type: 'attempt_started', deferrals: this.task.deferrals })
    if (policy.timeout !== undefined) this.timer = clock.setTimer(this, policy.timeout)
    this.call().then(
      result => this.returned(result),
      failure => this.failed(failure),
    )
  }

  /** The time of the attempt is up. */
  wake(): void {
    const timeoutMs = this.definition.policy.timeout ?? 0
    this.tell({ type: 'timed_out', timeoutMs })
    const error = new TimeoutError(`The task took longer than ${timeoutMs} ms.`, { timeoutMs })
    this.context.stop(error)
    this.failed(error)
  }

  /** Somebody cancelled the task: its handler is told, and its outcome no longer matters. */
  cancel(): void {
    this.context.stop(new TaskCancelledError(this.task.id))
    this.end({ type: 'cancelled' }, {})
  }

  /** The worker cannot wait for it any longer: it goes back at no cost. */
  release(reason: unknown): void {
    this.context.stop(reason)
    if (this.isBurying) this.buried({ type: 'released' })
    else this.end({ type: 'released' })
  }

  /** Another may have it by now. The handler is told; what it comes to is settled only if the token still holds. */
  warn(reason: unknown): void {
    this.context.stop(reason)
  }

  private async call(): Promise<unknown> {
    const { schema, handler, kind } = this.definition
    const stored: unknown = JSON.parse(this.task.payload)
    if (schema === undefined) return handler(stored, this.context)
    const result = await validate(schema, stored)
    if ('problem' in result) throw new PayloadError(kind, result.problem)
    return handler(result.value, this.context)
  }

  private returned(result: unknown): void {
    if (this.hasEnded) return
    const outcome = outcomeOfResult(result)
    this.end(outcome, {})
    if (outcome.type !== 'succeeded') return
    const totalMs = this.now() - this.task.startedAt
    this.tell({ type: 'attempt_succeeded', durationMs: this.elapsedMs(), totalMs })
  }

  private failed(failure: unknown): void {
    if (this.hasEnded) return
    const { clock, classify: classifier } = this.environment
    const verdict = classify(failure, this.definition.policy, clock.now(), classifier)
    const random = identityRandom(this.task.id, this.context.attempt)
    const decision = decide(this.definition.policy, historyOf(this.task), verdict, { now: this.now(), random })
    this.end(outcomeOf(decision, verdict), {
      verdict,
      random,
      error: failureText(failure),
      policy: this.definition.policyHash,
    })
    this.report(failure, verdict, decision)
  }

  /** The store has counted the loss already, so the history is the one before it. */
  private decideOnLoss(): void {
    const { policy, policyHash } = this.definition
    const history = { ...historyOf(this.task), attempts: this.task.attempts - 1 }
    const random = identityRandom(this.task.id, this.task.attempts)
    const decision = decide(policy, history, LOST, { now: this.now(), random })
    const failure = new RetryableError('The worker died.', { code: LOST.code })
    this.end(outcomeOf(decision, LOST), { verdict: LOST, random, error: failure.message, policy: policyHash })
    this.report(failure, LOST, decision)
  }

  /** Ends the run. Without an entry, no attempt is on record: none was made. */
  private end(outcome: Outcome, entry?: Partial<AttemptEntry>): void {
    if (this.hasEnded) return
    this.hasEnded = true
    const { clock, worker, settle } = this.environment
    if (this.timer !== undefined) clock.clearTimer(this.timer)
    const { id, token } = this.task
    const times = { startedAt: this.claimedAt, endedAt: this.now() }
    const attempt = entry && { attempt: this.context.attempt, ...times, worker, ...entry }
    const settlement = { id, token, outcome, attempt }
    if (outcome.type === 'dead' && this.definition.bury !== undefined) this.bury(settlement, this.definition.bury)
    else settle(this, settlement)
  }

  /** Takes a dead letter where it belongs, and settles the task without it; where that can never be, the store keeps it. */
  private bury(settlement: Settlement, bury: (payload: string, settlement: Settlement) => Promise<string>): void {
    this.isBurying = true
    const ask = async () => {
      if (!this.isBurying) throw new FinalError('The worker is stopping.')
      return bury(this.task.payload, settlement)
    }
    persistently(ask, this.environment.clock).then(
      reason => this.buried({ type: 'skipped', reason }, settlement.attempt),
      () => this.buried(settlement.outcome, settlement.attempt),
    )
  }

  private buried(outcome: Outcome, attempt?: AttemptEntry): void {
    if (!this.isBurying) return
    this.isBurying = false
    const { id, token } = this.task
    this.environment.settle(this, { id, token, outcome, attempt })
  }

  /** On the store's clock. */
  private now(): number {
    return this.claimedAt + Math.round(this.elapsedMs())
  }

  private elapsedMs(): number {
    return this.environment.clock.monotonic() - this.startedAt
  }

  private report(failure: unknown, verdict: Verdict, decision: Decision): void {
    const about = { durationMs: this.elapsedMs(), failure, verdict }
    if (decision.action === 'give_up') return void this.tell({ type: 'gave_up', ...about, reason: decision.reason })
    const type = decision.action === 'retry' ? 'retry_scheduled' : 'deferred'
    this.tell({ type, ...about, delayMs: decision.delayMs, nextAttemptAt: this.now() + decision.delayMs })
  }

  private tell(details: Details): void {
    const { sink, clock } = this.environment
    if (sink === undefined) return
    this.work ??= this.describe()
    const { attempt } = this.context
    emit(sink, { work: this.work, at: clock.now(), attempt, maxAttempts: this.definition.policy.attempts, ...details })
  }

  private describe(): Work {
    const { id, kind, category, key, payload } = this.task
    const work: Work = { kind: 'task', id, name: kind, category: category || undefined, tenantId: key || undefined }
    try {
      return { ...work, ...this.definition.describe?.(payload) }
    } catch {
      // Only sinks are told of it, and they never touch the work.
      return work
    }
  }
}

/** What the kernel needs to know of what came before. */
export function historyOf({ attempts, deferrals, startedAt, previousDelayMs }: ClaimedTask): History {
  return { attempts, deferrals, startedAt, previousDelayMs }
}

/**
 * What a handler's result asks for. Never throws: the work is done, and no result may make it be done again. Where JSON
 * cannot hold it, or it is too long for a record, a note stands in its place.
 */
function outcomeOfResult(result: unknown): Outcome {
  try {
    if (isLater(result)) return { type: 'later', delayMs: result.delayMs }
    if (isSkip(result)) return { type: 'skipped', reason: result.reason.slice(0, 1000) }
    const text = plainJson(result)
    if (text !== undefined && text.length > MAX_RESULT) throw new RangeError(`${text.length} characters are too many`)
    return { type: 'succeeded', result: text }
  } catch (error) {
    return { type: 'succeeded', result: JSON.stringify(`(not kept: ${failureText(error)})`) }
  }
}

function outcomeOf(decision: Decision, verdict: Verdict): Outcome {
  switch (decision.action) {
    case 'give_up':
      return { type: 'dead', reason: decision.reason }
    case 'defer':
      return { type: 'deferred', delayMs: decision.delayMs }
    case 'retry': {
      const isBackoff = advance(NO_HISTORY, verdict, decision).previousDelayMs !== undefined
      return { type: 'retry', delayMs: decision.delayMs, isBackoff }
    }
  }
}

const NO_HISTORY: History = { attempts: 0, deferrals: 0, startedAt: 0 }
