import { type ActiveAttempt, currentTracer, Overrun } from '../../attempt/index.js'
import { TimeoutError } from '../../policy/index.js'
import type { ClaimedTask } from '../../store/internal.js'
import type { OverrunReason } from '../../telemetry/internal.js'
import { awaited, type Clock } from '../../time/index.js'
import type { AttemptRecorder } from '../work-kind.js'

/** A task that is to be part of a call. */
export interface JointMember<Input> {
  readonly task: ClaimedTask
  readonly input: Input
  readonly attempt: ActiveAttempt
  readonly recorder: AttemptRecorder
  /** How many calls it was part of that failed. */
  failures: number
  readonly resolve: (result: unknown) => void
  readonly reject: (failure: unknown) => void
}

/** A call as its handler is told of it. */
export interface JointCall<Input> {
  /** The ledger names it with each task. */
  readonly id: string
  readonly members: readonly JointMember<Input>[]
  /** Aborts when the time of the call is up, or none of its tasks wants a result any more. */
  readonly signal: AbortSignal
}

/** A call to make. */
interface CallPlan<Input> {
  readonly id: string
  readonly name: string
  readonly handler: (call: JointCall<Input>) => unknown
  readonly timeoutMs: number | undefined
  readonly clock: Clock
}

/**
 * Calls a handler for several tasks. Rejects when its time is up or all of its tasks were aborted, but only once the
 * handler has ended, or has been given enough time to end.
 */
export async function jointCall<Input>(
  plan: CallPlan<Input>,
  members: readonly JointMember<Input>[],
): Promise<unknown> {
  const { id, handler, clock, timeoutMs } = plan
  const abort = new AbortController()
  let giveUp: (reason: unknown) => void = () => {}
  const givenUp = new Promise<never>((_, reject) => {
    giveUp = reject
  })
  givenUp.catch(() => {})
  let cut: { readonly failure: unknown; readonly overrun: Overrun } | undefined
  const cutShort = (failure: unknown, why: OverrunReason) => {
    if (cut !== undefined) return
    const overrun = new Overrun(clock, timeoutMs, {
      onNews: (type, durationMs) => {
        // Tasks that were cancelled or called off tell of it themselves.
        for (const { attempt } of members) if (why === 'timeout') attempt.overran(type, why, durationMs)
      },
      onLimit: () => giveUp(failure),
    })
    cut = { failure, overrun }
    awaited.add(abort.signal)
    abort.abort(failure)
  }
  const late = {
    wake: () => {
      const failure = new TimeoutError(`The call timed out after ${timeoutMs} ms.`, { timeoutMs: timeoutMs ?? 0 })
      cutShort(failure, 'timeout')
    },
  }
  const timer = timeoutMs === undefined ? undefined : clock.setTimer(late, timeoutMs)
  const stopWatching = whenAllAborted(members, reason => {
    cutShort(reason, 'cancelled')
    // Tasks that were stopped, rather than cancelled or called off, end right now.
    queueMicrotask(() => {
      if (members.every(({ attempt }) => attempt.hasEnded)) giveUp(reason)
    })
  })
  try {
    const call = () => handler({ id, members, signal: abort.signal })
    const results = await Promise.race([traced(plan, members, call), givenUp])
    if (cut !== undefined) throw cut.failure
    return results
  } catch (failure) {
    throw cut === undefined ? failure : cut.failure
  } finally {
    stopWatching()
    if (timer !== undefined) clock.clearTimer(timer)
    cut?.overrun.end()
  }
}

/** Makes a call in a span of its own, which links to those of its tasks. */
async function traced<Input>(
  { name }: CallPlan<Input>,
  members: readonly JointMember<Input>[],
  call: () => unknown,
): Promise<unknown> {
  const span = currentTracer()?.beginCall(
    name,
    members.flatMap(({ attempt }) => attempt.span ?? []),
  )
  if (span === undefined) return call()
  try {
    const results = await span.run(call)
    span.end({ outcome: 'succeeded' })
    return results
  } catch (failure) {
    span.end({ outcome: 'failed', failed: { failure, code: 'batch_failed' } })
    throw failure
  }
}

/** Whether a result fails its task. Known by its tag, since an error may come from another realm. */
export function isError(result: unknown): result is Error {
  return result instanceof Error || Object.prototype.toString.call(result) === '[object Error]'
}

/** Calls back once all members are aborted. Returns a function that stops watching. */
function whenAllAborted<Input>(
  members: readonly JointMember<Input>[],
  callback: (reason: unknown) => void,
): () => void {
  let left = members.length
  const listener = (reason: unknown) => {
    if (--left === 0) callback(reason)
  }
  for (const { attempt } of members) attempt.whenAborted(listener)
  return () => {
    for (const { attempt } of members) attempt.whenAborted(undefined)
  }
}
