import type { ActiveAttempt } from '../../attempt/index.js'
import { type Classifier, classify, type Policy, type Verdict } from '../../policy/index.js'
import { type ClaimedTask, runsAlone } from '../../store/internal.js'
import type { Clock, Sleeper, Timer } from '../../time/index.js'
import type { AttemptRecorder } from '../work-kind.js'
import { isError, type JointCall, type JointMember, jointCall } from './joint-call.js'

/** Work whose tasks are called together: a stage of a pipeline, or a kind of task. */
export interface JointWork<Input> {
  /** The name of its spans. */
  readonly name: string
  /** Its timeout is that of a call. */
  readonly policy: Policy
  /** The most tasks of a call. */
  readonly size: number
  /** How long the first task of a call waits for others. */
  readonly withinMs: number
  /** How many calls are made at once. */
  readonly concurrency: number
  /** Calls the handler. It returns a result for each member, in their order. */
  readonly handler: (call: JointCall<Input>) => unknown
  /** The failure of a call that returned something else. */
  readonly wrongResult: (expected: number, returned: unknown) => Error
}

/** A call that failed. */
interface FailedCall {
  readonly id: string
  readonly failure: unknown
  readonly verdict: Verdict
}

/**
 * Collects tasks into joint calls, and finds the tasks at fault if a call throws:
 *
 * - A rate limit is nobody's fault: all tasks of the call wait, and nothing is halved. Neither is a call halved that was
 *   aborted from outside: the worker stops, or its lease is over.
 * - Any other throw is halved. If one half succeeds, the fault lies in the other, which is halved again, until the task at
 *   fault is alone. The calls that it failed in count as its attempts, so it is not tried as often again.
 * - If both halves fail with the same code, it is the service: each task is charged one attempt, and waits. Unless waiting
 *   would not help, because the failure is final or a task is at its last attempt: then all are halved to the end.
 *
 * Tasks have attempts, calls have none. An `Error` in the place of a result fails that task alone. A task that was aborted
 * ends without being part of another call.
 */
export class JointCalls<Input> implements Sleeper {
  readonly #work: JointWork<Input>
  readonly #clock: Clock
  readonly #classify: Classifier | undefined
  readonly #waiting: JointMember<Input>[] = []
  #concurrency: number
  #running = 0
  /** Runs from the arrival of the first task that waits. */
  #timer: Timer | undefined
  #isDue = false

  constructor(work: JointWork<Input>, clock: Clock, classifier: Classifier | undefined) {
    this.#work = work
    this.#concurrency = work.concurrency
    this.#clock = clock
    this.#classify = classifier
  }

  /** Resolves with the result of a task, or rejects with its failure, once it was part of a call. */
  add(task: ClaimedTask, input: Input, attempt: ActiveAttempt, recorder: AttemptRecorder): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const member = { task, input, attempt, recorder, failures: 0, resolve, reject }
      if (attempt.aborted !== undefined) return reject(attempt.aborted.reason)
      this.#waiting.push(member)
      attempt.whenAborted(() => this.#drop(member))
      this.#timer ??= this.#clock.setTimer(this, this.#work.withinMs)
      // A task that may kill its worker is the only one there: no others will join it.
      if (runsAlone(task)) this.#isDue = true
      this.#start()
    })
  }

  /** Changes how many calls are made at once. */
  resize(concurrency: number): void {
    this.#concurrency = concurrency
    this.#start()
  }

  /** A task was aborted while it waited for its call. It ends here. */
  #drop(member: JointMember<Input>): void {
    this.#waiting.splice(this.#waiting.indexOf(member), 1)
    if (this.#waiting.length === 0) this.#rearm()
    member.reject(member.attempt.aborted?.reason)
  }

  /** The first task has waited for long enough. */
  wake(): void {
    this.#isDue = true
    this.#start()
  }

  #start(): void {
    const { size } = this.#work
    while (this.#running < this.#concurrency && this.#waiting.length > 0) {
      if (this.#waiting.length < size && !this.#isDue) return
      const members = this.#waiting.splice(0, size)
      this.#rearm()
      void this.#run(members)
    }
  }

  #rearm(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
    this.#isDue = false
    this.#timer = this.#waiting.length > 0 ? this.#clock.setTimer(this, this.#work.withinMs) : undefined
  }

  async #run(members: readonly JointMember<Input>[]): Promise<void> {
    this.#running++
    const failed = await this.#call(members)
    if (failed !== undefined) await this.#blame(members, failed)
    // First the places of its tasks are taken by others, so that the next call is as full as it can be.
    await new Promise(resolve => setImmediate(resolve))
    this.#running--
    this.#start()
  }

  /** Makes a call. Its results go to the tasks; a failure is returned. */
  async #call(members: readonly JointMember<Input>[]): Promise<FailedCall | undefined> {
    const id = crypto.randomUUID()
    const { name, policy, handler, wrongResult } = this.#work
    try {
      const results = await jointCall({ id, name, handler, timeoutMs: policy.timeout, clock: this.#clock }, members)
      if (!Array.isArray(results) || results.length !== members.length) throw wrongResult(members.length, results)
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

  /** Finds the tasks at fault for a call that failed, and fails them. */
  async #blame(called: readonly JointMember<Input>[], failed: FailedCall): Promise<void> {
    const { id, failure, verdict } = failed
    const members = withoutAborted(called, failed)
    const [alone] = members
    if (alone === undefined) return
    if (called.length === 1) return fail(alone, id, failure, alone.failures)
    if (verdict.class === 'rate_limited') return failAll(members, id, failure)
    for (const member of members) member.failures++
    const middle = Math.ceil(members.length / 2)
    const halves = [members.slice(0, middle), members.slice(middle)]
    const failures: { readonly half: readonly JointMember<Input>[]; readonly call: FailedCall }[] = []
    for (const each of halves) {
      // Some may have been aborted while the other half was called.
      const half = withoutAborted(each, failed)
      const call = half.length === 0 ? undefined : await this.#call(half)
      if (call !== undefined) failures.push({ half, call })
    }
    const isService = failures.length === 2 && this.#isOfService(members, failures[0]?.call, failures[1]?.call)
    for (const { half, call } of failures) {
      if (isService) failAll(half, call.id, call.failure)
      else await this.#blame(half, call)
    }
  }

  /** Whether both halves failed because of the service, and waiting may help. */
  #isOfService(
    members: readonly JointMember<Input>[],
    one: FailedCall | undefined,
    other: FailedCall | undefined,
  ): boolean {
    if (one?.verdict.class !== 'retryable' || one.verdict.code !== other?.verdict.code) return false
    return members.every(({ attempt }) => !attempt.isLast)
  }
}

/** Ends the members that were aborted: how they end is certain. Returns the others. */
function withoutAborted<Input>(
  members: readonly JointMember<Input>[],
  { id, failure }: FailedCall,
): readonly JointMember<Input>[] {
  const isAborted = ({ attempt }: JointMember<Input>) => attempt.aborted !== undefined
  failAll(members.filter(isAborted), id, failure)
  return members.filter(member => !isAborted(member))
}

function succeed<Input>({ recorder, resolve }: JointMember<Input>, call: string, result: unknown): void {
  recorder.wasPartOf(call, 0)
  resolve(result)
}

function fail<Input>(
  { recorder, reject }: JointMember<Input>,
  call: string,
  failure: unknown,
  earlierFailures = 0,
): void {
  recorder.wasPartOf(call, earlierFailures)
  reject(failure)
}

function failAll<Input>(members: readonly JointMember<Input>[], call: string, failure: unknown): void {
  for (const member of members) fail(member, call, failure)
}
