import type { UniqueKey } from '../../src/store/internal.js'
import { openStore } from './open-store.js'

/** Replaces tasks, lets them wait for each other, claims and settles them, until it is killed. */
const { url, worker } = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '{}')
const store = await openStore(url)
const CONFLICTS = ['replace', 'after', 'keep'] as const

for (let round = 0; ; round++) {
  const conflict = CONFLICTS[round % CONFLICTS.length] ?? 'keep'
  const unique: UniqueKey = { key: `k${round % 4}`, while: 'unfinished', conflict }
  await store.enqueue([{ kind: 'k', payload: String(round), unique }])
  const request = { worker, leaseMs: 500, rooms: [{ kinds: ['k'] }], limit: 1, isIdle: true }
  const { tasks, now } = await store.claim(request)
  for (const { id, token, attempts } of tasks) {
    const attempt = { attempt: attempts + 1, startedAt: now, endedAt: now, worker }
    const outcome =
      round % 5 === 0 ? ({ type: 'retry', delayMs: 5, isBackoff: true } as const) : ({ type: 'succeeded' } as const)
    await store.settle([{ id, token, outcome, attempt }])
  }
  await store.heartbeat({ worker, leaseMs: 500 })
  if (round === 5) console.log('ready')
}
