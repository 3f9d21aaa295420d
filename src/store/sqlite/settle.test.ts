import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type FakeClock, fakeClock } from '../../testing/index.js'
import type { AttemptEntry, ClaimedTask, Outcome } from '../index.js'
import { openSqlite, type SqliteStore } from './index.js'

let folder: string
let clock: FakeClock
let store: SqliteStore

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  clock = fakeClock()
  store = await openSqlite(join(folder, 'redrive.db'), { clock })
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true })
})

const LEASE_MS = 1000
const verdict = { class: 'retryable', code: 'E' } as const

/** Claims all that is ready, one claim after another, since some of it may have to run alone. */
async function claimAll(): Promise<ClaimedTask[]> {
  const tasks: ClaimedTask[] = []
  for (let worker = 0; ; worker++) {
    const rooms = [{ kinds: ['k'] }]
    const claim = await store.claim({ worker: `w${worker}`, leaseMs: LEASE_MS, rooms, limit: 10, isIdle: true })
    if (claim.tasks.length === 0) return tasks
    tasks.push(...claim.tasks)
  }
}

async function settle(tasks: readonly ClaimedTask[], outcome: Outcome, facts: Partial<AttemptEntry>): Promise<void> {
  const times = { startedAt: clock.now() - 3.4, endedAt: clock.now() + 0.6, worker: 'w' }
  await store.settle(
    tasks.map(({ id, token, attempts }) => ({
      id,
      token,
      outcome,
      attempt: { attempt: attempts + 1, ...times, ...facts },
    })),
  )
}

/** Histories that a task may have before it succeeds. */
const PASTS: Readonly<Record<string, () => Promise<void>>> = {
  nothing: async () => {},
  'a retry': async () =>
    settle(await claimAll(), { type: 'retry', delayMs: 0, isBackoff: true }, { verdict, error: 'slow' }),
  'a deferral': async () => settle(await claimAll(), { type: 'deferred', delayMs: 0 }, { verdict }),
  'a loss that nobody has decided on': async () => {
    await claimAll()
    await clock.advance(LEASE_MS)
    await store.heartbeat({ worker: 'rescuer', leaseMs: LEASE_MS })
  },
  'a redrive': async () => {
    const tasks = await claimAll()
    await settle(tasks, { type: 'dead', reason: 'final_error' }, { verdict, error: 'bad' })
    const ids = tasks.map(({ id }) => id)
    await store.redrive(ids, { who: 'ann' })
  },
}

for (const [past, happen] of Object.entries(PASTS)) {
  it(`a success that takes one statement leaves what the rules say, after ${past}`, async () => {
    await store.enqueue(['a', 'b'].map(id => ({ id, kind: 'k', key: id, payload: '{}' })))
    await happen()
    const tasks = await claimAll()
    expect(tasks.map(({ id }) => id).sort()).toEqual(['a', 'b'])
    await store.cancel(['a', 'b'])
    await clock.advance(5)
    for (const task of tasks) {
      // With a policy on record the attempt is not plain, and takes the way of all other outcomes.
      const facts = task.id === 'a' ? {} : { policy: 'hash' }
      await settle([task], { type: 'succeeded', result: '1' }, facts)
    }
    expect(await store.get('a')).toEqual({ ...(await store.get('b')), id: 'a', key: 'a' })
    const full = await store.ledger('b')
    expect(full.at(-1)).toMatchObject({ outcome: 'succeeded', policy: 'hash' })
    expect(await store.ledger('a')).toEqual(full.map(row => ({ ...row, policy: undefined })))
    const lanes = await store.lanes()
    expect(lanes[0]).toEqual({ ...lanes[1], key: 'a' })
  })
}
