import { advance, begin, type Classifier, classify, decide, type Policy, policy } from '../policy/index.js'
import { type Clock, sleep, systemClock } from '../time/index.js'
import type { Outages } from './outages.js'

/** For a store or broker that is away: ask until it answers. A refusal that asking again cannot change is final. */
export const UNTIL_ANSWERED = /* @__PURE__ */ policy({
  attempts: Number.MAX_SAFE_INTEGER,
  backoff: { base: '50ms', max: '5s' },
  jitter: 'equal',
  maxRetryAfter: '5s',
})

const LASTING_MS = 60_000

/** Options of `persist`. */
export interface PersistOptions {
  /** Default: the system clock. */
  readonly clock?: Clock
  /** Default: `Math.random`. */
  readonly random?: () => number
  /** Ends the waiting. The request is made one last time. */
  readonly signal?: AbortSignal
  readonly classify?: Classifier
  /** Hears of the first failure, of an outage that has lasted for a minute, and of its end. */
  readonly outages?: Pick<Outages, 'began' | 'lasting' | 'ended'> | undefined
}

/** Asks a store or a broker, again and again as the policy says. Rejects with the last failure once that gives up. */
export async function persist<T>(
  ask: () => T | PromiseLike<T>,
  policy: Policy,
  { clock = systemClock, random = Math.random, signal, classify: classifier, outages }: PersistOptions = {},
): Promise<T> {
  let history = begin(clock.monotonic())
  let isOut = false
  let isLasting = false
  try {
    for (;;) {
      try {
        return await ask()
      } catch (failure) {
        const verdict = classify(failure, policy, clock.now(), classifier)
        const circumstances = { now: clock.monotonic(), random: random(), aborted: signal?.aborted }
        const decision = decide(policy, history, verdict, circumstances)
        if (decision.action === 'give_up') throw failure
        if (!isOut) outages?.began(failure)
        isOut = true
        if (!isLasting && clock.monotonic() - history.startedAt >= LASTING_MS) {
          isLasting = true
          outages?.lasting(failure)
        }
        history = advance(history, verdict, decision)
        await sleep(decision.delayMs, clock, signal).catch(() => {})
      }
    }
  } finally {
    if (isOut) outages?.ended()
  }
}

/** Whether a failure says that asking again will not help. */
export function isRefusal(failure: unknown, clock: Clock): boolean {
  return classify(failure, UNTIL_ANSWERED, clock.now()).class === 'final'
}
