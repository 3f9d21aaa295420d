import { advance, begin, classify, decide, type Policy, policy } from '../policy/index.js'
import { type Clock, sleep } from '../time/index.js'

/** For a write that a caller waits for: a few attempts within a second. */
export const AT_ONCE = /* @__PURE__ */ policy({
  attempts: 4,
  backoff: { base: '50ms', max: '1s' },
  jitter: 'equal',
  retryOn: 'all',
  maxRetryAfter: '1s',
})

/** For a write that nobody waits for: as long as an outage of the store may well last. */
export const LATER = /* @__PURE__ */ policy({
  attempts: Number.MAX_SAFE_INTEGER,
  ttl: '15m',
  backoff: { base: '1s', max: '30s' },
  jitter: 'equal',
  retryOn: 'all',
  maxRetryAfter: '30s',
})

/** What became of a write: the store's answer, or the last failure. */
export type Written<T> = { readonly answer: T } | { readonly failure: unknown }

/** Writes to the store, again and again as the policy says; when the signal aborts, one last time. Never rejects. */
export async function persist<T>(
  write: () => Promise<T>,
  policy: Policy,
  clock: Clock,
  random: () => number,
  signal?: AbortSignal,
): Promise<Written<T>> {
  let history = begin(clock.monotonic())
  for (;;) {
    try {
      return { answer: await write() }
    } catch (failure) {
      const verdict = classify(failure, policy, clock.now())
      const circumstances = { now: clock.monotonic(), random: random(), aborted: signal?.aborted }
      const decision = decide(policy, history, verdict, circumstances)
      if (decision.action === 'give_up') return { failure }
      history = advance(history, verdict, decision)
      await sleep(decision.delayMs, clock, signal).catch(() => {})
    }
  }
}
