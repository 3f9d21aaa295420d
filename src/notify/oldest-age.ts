import { formatDuration } from '../policy/index.js'
import type { KindStats } from '../store/index.js'
import { redact } from '../telemetry/index.js'
import type { Notice } from './notice.js'
import { isOwnKind, type Occasion } from './occasion.js'

/** Tells when the oldest ready task of a kind has waited for longer than a limit: the workers are gone, or too few. */
export function oldestAge(limitMs: number): Occasion {
  return async ({ store, now }) => {
    const { kinds, workers } = await store.stats()
    return kinds
      .filter(({ kind, readySince = now }) => !isOwnKind(kind) && now - readySince > limitMs)
      .map(stats => noticeOf(stats, workers, now, limitMs))
  }
}

function noticeOf(
  { kind, category, ready, readySince = 0 }: KindStats,
  workers: number,
  now: number,
  limitMs: number,
): Notice {
  const name = redact(category === '' ? kind : `${kind} (${category})`)
  const ageMs = now - readySince
  const running = workers === 1 ? '1 worker is running' : `${workers} workers are running`
  const age = `The oldest ready task of ${name} has waited for ${formatDuration(wholeSeconds(ageMs))}`
  return {
    type: 'oldest_age',
    subject: `${kind}/${category}`,
    lasts: true,
    text: `${age}; the limit is ${formatDuration(limitMs)}. ${ready} ready, ${running}.`,
    facts: { kind, category, ready, ageMs, limitMs, workers },
  }
}

function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000) * 1000
}
