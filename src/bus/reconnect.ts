import { begin, decide, policy } from '../policy/index.js'

/** The policy for reaching a broker again. A broker that goes away is usually back within seconds. */
export const UNTIL_BACK = /* @__PURE__ */ policy({
  attempts: Number.MAX_SAFE_INTEGER,
  retryOn: 'all',
  backoff: { base: '100ms', max: '5s' },
  jitter: 'equal',
})
const AWAY = { class: 'retryable', code: 'bus_unavailable' } as const

/** Returns the delay after the n-th failed attempt to reach the broker. */
export function reconnectDelayMs(failedAttempts: number): number {
  const history = { ...begin(0), attempts: failedAttempts - 1 }
  const decision = decide(UNTIL_BACK, history, AWAY, { now: 0, random: Math.random() })
  if (decision.action === 'give_up') throw new RangeError(`No delay follows attempt ${failedAttempts}.`)
  return decision.delayMs
}
