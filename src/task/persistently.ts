import { advance, begin, classify, decide, policy } from '../policy/index.js'
import { type Clock, sleep } from '../time/index.js'
import type { Outages } from './outages.js'

/** A store that is away for a while is asked again until it answers; what it can never take is a bug, and is not. */
const UNTIL_IT_ANSWERS = /* @__PURE__ */ policy({
  attempts: Number.MAX_SAFE_INTEGER,
  backoff: { base: '50ms', max: '5s' },
  jitter: 'equal',
  maxRetryAfter: '5s',
})

/** Whether a store says that asking it again will not help. */
export function isForGood(failure: unknown, clock: Clock): boolean {
  return classify(failure, UNTIL_IT_ANSWERS, clock.now()).class === 'final'
}

/** Asks the store until it answers. Rejects only if it says that asking again will not help. */
export async function persistently<T>(ask: () => Promise<T>, clock: Clock, outages?: Outages): Promise<T> {
  let history = begin(clock.monotonic())
  for (let isOut = false; ; ) {
    try {
      const answer = await ask()
      if (isOut) outages?.ended()
      return answer
    } catch (failure) {
      const verdict = classify(failure, UNTIL_IT_ANSWERS, clock.now())
      const circumstances = { now: clock.monotonic(), random: Math.random() }
      const decision = decide(UNTIL_IT_ANSWERS, history, verdict, circumstances)
      if (decision.action === 'give_up') {
        if (isOut) outages?.ended()
        throw failure
      }
      if (!isOut) outages?.began(failure)
      isOut = true
      history = advance(history, verdict, decision)
      await sleep(decision.delayMs, clock)
    }
  }
}
