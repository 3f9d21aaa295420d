import { formatDuration } from '../policy/index.js'
import { commandLine } from '../policy/internal.js'

import { isRunBy, type KindStats } from '../store/internal.js'
import { redact } from '../telemetry/index.js'
import type { Notice } from './notice.js'
import { isOwnKind, type Occasion } from './occasion.js'

/** Tells when the oldest ready task of a kind has waited for longer than a limit: the workers are gone, or too few. */
export function oldestAge(limitMs: number): Occasion {
  return async ({ store, now }) => {
    const { kinds } = await store.stats()
    const late = kinds.filter(({ kind, readySince = now }) => !isOwnKind(kind) && now - readySince > limitMs)
    if (late.length === 0) return []
    const workers = await store.workers()
    return late.map(stats => noticeOf(stats, workers.filter(worker => isRunBy(worker, stats)).length, now, limitMs))
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
  const running = workers === 0 ? 'no worker runs it' : workers === 1 ? '1 worker runs it' : `${workers} workers run it`
  const next =
    workers === 0
      ? `To list the workers, run: ${commandLine('worker ls')}`
      : `To see the queue, run: ${commandLine('stats')}`
  const age = `The oldest ready task of ${name} has waited for ${formatDuration(wholeSeconds(ageMs))}`
  return {
    type: 'oldest_age',
    subject: `${kind}/${category}`,
    lasts: true,
    text: `${age}; the limit is ${formatDuration(limitMs)}. ${ready} ready, ${running}. ${next}`,
    facts: { kind, category, ready, ageMs, limitMs, workers },
  }
}

function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000) * 1000
}
