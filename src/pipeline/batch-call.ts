import { type ActiveAttempt, currentTracer, Overrun } from '../attempt/index.js'
import type { AttemptRecorder } from '../engine/internal.js'
import { TimeoutError } from '../policy/index.js'
import type { ClaimedTask, Cost } from '../store/internal.js'
import type { OverrunReason } from '../telemetry/internal.js'
import { awaited, type Clock } from '../time/index.js'
import { ownId } from './item-context.js'
import type { BatchWork } from './stage.js'
import type { BatchContext } from './stage-context.js'
import { validCost } from './valid-cost.js'

/** An item that is to be part of a call. */
export interface BatchMember {
  readonly task: ClaimedTask
  readonly input: unknown
  readonly attempt: ActiveAttempt
  readonly recorder: AttemptRecorder
  /** How many calls it was part of that failed. */
  failures: number
  readonly resolve: (result: unknown) => void
  readonly reject: (failure: unknown) => void
}

/** A call to make. */
interface CallPlan {
  readonly id: string
  readonly stage: string
  readonly work: BatchWork
  readonly timeoutMs: number | undefined
  readonly clock: Clock
}

/**
 * Calls the handler of a batch stage. Rejects when its time is up or all of its items were aborted, but only once the
 * handler has ended, or has been given enough time to end.
 */
export async function batchCall(plan: CallPlan, members: readonly BatchMember[]): Promise<unknown> {
  const { work, clock, timeoutMs } = plan
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
        // Items that were cancelled or called off tell of it themselves.
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
    // Items that were stopped, rather than cancelled or called off, end right now.
    queueMicrotask(() => {
      if (members.every(({ attempt }) => attempt.hasEnded)) giveUp(reason)
    })
  })
  try {
    const inputs = members.map(({ input }) => input)
    const call = () => work.call(inputs, contextOf(plan, members, abort.signal))
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

/** Makes a call in a span of its own, which links to those of its items. */
async function traced({ stage }: CallPlan, members: readonly BatchMember[], call: () => unknown): Promise<unknown> {
  const span = currentTracer()?.beginCall(
    stage,
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

/** Whether a result fails its item. Known by its tag, since an error may come from another realm. */
export function isError(result: unknown): result is Error {
  return result instanceof Error || Object.prototype.toString.call(result) === '[object Error]'
}

function contextOf({ id, stage }: CallPlan, members: readonly BatchMember[], signal: AbortSignal): BatchContext {
  return {
    stage,
    call: id,
    items: members.map(({ task, attempt }) => ({ id: ownId(task), run: task.key, attempt: attempt.number })),
    signal,
    used(cost) {
      const share = shareOf(validCost(cost, { from: 'used()', stage }), members.length)
      for (const { recorder } of members) recorder.used(share)
    },
  }
}

function shareOf(cost: Cost, count: number): Cost {
  return Object.fromEntries(Object.entries(cost).map(([bucket, amount]) => [bucket, amount / count]))
}

/** Calls back once the signals of all members have aborted. Returns a function that stops watching. */
function whenAllAborted(members: readonly BatchMember[], callback: (reason: unknown) => void): () => void {
  let left = members.length
  const watched = members.map(({ attempt: { signal } }) => {
    const listener = () => {
      if (--left === 0) callback(signal.reason)
    }
    signal.addEventListener('abort', listener, { once: true })
    return { signal, listener }
  })
  return () => {
    for (const { signal, listener } of watched) signal.removeEventListener('abort', listener)
  }
}
