import type { ActiveAttempt } from '../attempt/index.js'
import type { AttemptRecorder } from '../engine/internal.js'
import { type Classifier, classify, type Policy, type Verdict } from '../policy/index.js'
import type { ClaimedTask } from '../store/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'
import { type BatchMember, batchCall, isError } from './batch-call.js'
import { BatchResultError } from './errors.js'
import type { BatchWork } from './stage.js'

/** A stage whose items are called together. */
export interface BatchStage {
  readonly name: string
  readonly policy: Policy
  readonly concurrency: number
  readonly work: BatchWork
}

/** A call that failed. */
interface FailedCall {
  readonly id: string
  readonly failure: unknown
  readonly verdict: Verdict
}

/**
 * Collects the items of a batch stage into calls, and finds the items at fault if a call throws:
 *
 * - A rate limit is nobody's fault: all items of the call wait, and nothing is halved. Neither is a call halved that was
 *   aborted from outside: the worker stops, or its lease is over.
 * - Any other throw is halved. If one half succeeds, the fault lies in the other, which is halved again, until the item at
 *   fault is alone. The calls that it failed in count as its attempts, so it is not tried as often again.
 * - If both halves fail with the same code, it is the service: each item is charged one attempt, and waits. Unless waiting
 *   would not help, because the failure is final or an item is at its last attempt: then all are halved to the end.
 *
 * Items have attempts, calls have none. An `Error` in the place of a result fails that item alone.
 */
export class BatchCalls implements Sleeper {
  readonly #stage: BatchStage
  readonly #clock: Clock
  readonly #classify: Classifier | undefined
  readonly #waiting: BatchMember[] = []
  #running = 0
  /** Runs from the arrival of the first item that waits. */
  #timer: Timer | undefined
  #isDue = false

  constructor(stage: BatchStage, clock: Clock, classifier: Classifier | undefined) {
    this.#stage = stage
    this.#clock = clock
    this.#classify = classifier
  }

  /** Resolves with the result of an item, or rejects with its failure, once it was part of a call. */
  add(task: ClaimedTask, input: unknown, attempt: ActiveAttempt, recorder: AttemptRecorder): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const member = { task, input, attempt, recorder, failures: 0, resolve, reject }
      this.#waiting.push(member)
      attempt.signal.addEventListener('abort', () => this.#drop(member), { once: true })
      this.#timer ??= this.#clock.setTimer(this, this.#stage.work.withinMs)
      this.#start()
    })
  }

  /** An item was aborted. If it still waits for its call, it ends here. */
  #drop(member: BatchMember): void {
    const place = this.#waiting.indexOf(member)
    if (place < 0) return
    this.#waiting.splice(place, 1)
    if (this.#waiting.length === 0) this.#rearm()
    member.reject(member.attempt.signal.reason)
  }

  /** The first item has waited for long enough. */
  wake(): void {
    this.#isDue = true
    this.#start()
  }

  /** Full batches start at once; the engine gives out no more items than there may be calls for. */
  #start(): void {
    const { work, concurrency } = this.#stage
    while (this.#waiting.length >= work.size || (this.#isDue && this.#running < concurrency)) {
      const members = this.#waiting.splice(0, work.size)
      this.#rearm()
      if (members.length > 0) void this.#run(members)
    }
  }

  #rearm(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
    this.#isDue = false
    this.#timer = this.#waiting.length > 0 ? this.#clock.setTimer(this, this.#stage.work.withinMs) : undefined
  }

  async #run(members: readonly BatchMember[]): Promise<void> {
    this.#running++
    const failed = await this.#call(members)
    if (failed !== undefined) await this.#blame(members, failed)
    this.#running--
    this.#start()
  }

  /** Makes a call. Its results go to the items; a failure is returned. */
  async #call(members: readonly BatchMember[]): Promise<FailedCall | undefined> {
    const id = crypto.randomUUID()
    const { name, work, policy } = this.#stage
    try {
      const results = await batchCall({ id, stage: name, work, timeoutMs: policy.timeout, clock: this.#clock }, members)
      if (!Array.isArray(results) || results.length !== members.length)
        throw new BatchResultError(name, members.length, results)
      for (const [index, member] of members.entries()) {
        const result: unknown = results[index]
        if (isError(result)) fail(member, id, result)
        else succeed(member, id, result)
      }
      return undefined
    } catch (failure) {
      return { id, failure, verdict: classify(failure, policy, this.#clock.now(), this.#classify) }
    }
  }

  /** Finds the items at fault for a call that failed, and fails them. */
  async #blame(members: readonly BatchMember[], { id, failure, verdict }: FailedCall): Promise<void> {
    const [alone] = members
    if (alone !== undefined && members.length === 1) return fail(alone, id, failure, alone.failures)
    if (verdict.class === 'rate_limited' || areAborted(members)) return failAll(members, id, failure)
    for (const member of members) member.failures++
    const middle = Math.ceil(members.length / 2)
    const halves = [members.slice(0, middle), members.slice(middle)]
    const failed: { readonly half: readonly BatchMember[]; readonly call: FailedCall }[] = []
    for (const half of halves) {
      // They may have been aborted while the other half was called.
      const call = areAborted(half) ? { id, failure, verdict } : await this.#call(half)
      if (call !== undefined) failed.push({ half, call })
    }
    const isService = failed.length === 2 && this.#isOfService(members, failed[0]?.call, failed[1]?.call)
    for (const { half, call } of failed) {
      if (isService) failAll(half, call.id, call.failure)
      else await this.#blame(half, call)
    }
  }

  /** Whether both halves failed because of the service, and waiting may help. */
  #isOfService(members: readonly BatchMember[], one: FailedCall | undefined, other: FailedCall | undefined): boolean {
    if (one?.verdict.class !== 'retryable' || one.verdict.code !== other?.verdict.code) return false
    return members.every(({ attempt }) => attempt.number < this.#stage.policy.attempts)
  }
}

function areAborted(members: readonly BatchMember[]): boolean {
  return members.every(({ attempt }) => attempt.signal.aborted)
}

function succeed({ recorder, resolve }: BatchMember, call: string, result: unknown): void {
  recorder.wasPartOf(call, 0)
  resolve(result)
}

function fail({ recorder, reject }: BatchMember, call: string, failure: unknown, earlierFailures = 0): void {
  recorder.wasPartOf(call, earlierFailures)
  reject(failure)
}

function failAll(members: readonly BatchMember[], call: string, failure: unknown): void {
  for (const member of members) fail(member, call, failure)
}
