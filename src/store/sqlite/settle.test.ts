import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type FakeClock, fakeClock } from '../../testing/index.js'
import type { AttemptEntry, ClaimedTask, Outcome } from '../internal.js'
import { openSqlite, type SqliteStore } from './internal.js'

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
const group = { id: '1-slow', kind: 'k', code: 'E', errorName: 'Error', pattern: 'slow', frames: [] }

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
  'a retry in a group': async () =>
    settle(await claimAll(), { type: 'retry', delayMs: 0, isBackoff: true }, { verdict, error: 'slow', group }),
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

// After a deferral the lane starts with one task, and successes are written one by one.
for (const [past, happen] of Object.entries(PASTS).filter(([past]) => past !== 'a deferral')) {
  it(`successes that are written together leave what the rules say, after ${past}`, async () => {
    const ids = ['a', 'b', 'c', 'd', 'e', 'f']
    await store.enqueue(ids.map(id => ({ id, kind: 'k', payload: '{}' })))
    await happen()
    const tasks = await claimAll()
    await store.cancel(ids)
    await clock.advance(5)
    const [last, ...others] = tasks.reverse()
    if (last === undefined) throw new Error('nothing was claimed')
    await settle(others, { type: 'succeeded' }, {})
    await settle([last], { type: 'succeeded' }, { policy: 'hash' })
    const row = await store.get(last.id)
    const history = (await store.ledger(last.id)).map(entry => ({ ...entry, policy: undefined }))
    for (const { id } of others) {
      expect(await store.get(id)).toEqual({ ...row, id })
      expect(await store.ledger(id)).toEqual(history)
    }
    expect(await store.count({})).toMatchObject({ running: 0, succeeded: ids.length })
    expect((await store.groups.list({}, { limit: 10 })).items.filter(({ retrying }) => retrying !== 0)).toEqual([])
  })
}

// After a deferral the lane starts with one task, and retries are written one by one.
for (const [past, happen] of Object.entries(PASTS).filter(([past]) => past !== 'a deferral')) {
  it(`a retry that takes two statements leaves what the rules say, after ${past}`, async () => {
    const ids = ['a', 'b', 'c']
    await store.enqueue(ids.map(id => ({ id, kind: 'k', category: 'mail', payload: '{}' })))
    await happen()
    const [last, ...together] = await claimAll()
    if (last === undefined) throw new Error('nothing was claimed')
    await clock.advance(5)
    const retry = { type: 'retry', delayMs: 7.5, isBackoff: true } as const
    const facts = { verdict, error: 'slow again', group, stack: 'at f', random: 0.25, policy: 'hash', release: '1.0' }
    await settle(together, retry, facts)
    // The rules look at the first failure of a group in each call.
    await settle([last], retry, facts)
    const row = await store.get(last.id)
    const history = await store.ledger(last.id)
    expect(history.at(-1)).toMatchObject({ category: 'mail', delayMs: 8, random: 0.25, policy: 'hash' })
    for (const { id } of together) {
      expect(await store.get(id)).toEqual({ ...row, id })
      expect(await store.ledger(id)).toEqual(history)
    }
    expect(await store.count({})).toMatchObject({ running: 0, waiting: ids.length })
    const { items } = await store.groups.list({}, { limit: 10 })
    expect(items.reduce((sum, { retrying }) => sum + retrying, 0)).toBe(ids.length)
  })
}

it('successes of tasks in several groups are written together, and each leaves its own', async () => {
  const ids = ['a', 'b', 'c', 'd', 'e', 'f']
  await store.enqueue(ids.map(id => ({ id, kind: 'k', payload: '{}' })))
  const failing = await claimAll()
  const retry = { type: 'retry', delayMs: 0, isBackoff: true } as const
  await settle(failing.slice(0, 2), retry, { verdict, error: 'slow', group })
  await settle(failing.slice(2, 5), retry, {
    verdict,
    error: 'down',
    group: { ...group, id: '1-down', pattern: 'down' },
  })
  await settle(failing.slice(5), { type: 'later', delayMs: 0 }, {})
  const tasks = await claimAll()
  const others = tasks.filter(({ id }) => id !== 'e')
  await settle(others, { type: 'succeeded' }, { attempt: 2 })
  expect(await store.countBy({ status: 'succeeded' }, ['group'])).toEqual([{ count: 5 }])
  const { items } = await store.groups.list({}, { limit: 10 })
  expect(Object.fromEntries(items.map(({ id, retrying }) => [id, retrying]))).toEqual({ '1-slow': 0, '1-down': 1 })
})

// As a range if nothing else of the claim is running between them, as a list otherwise.
for (const [between, outcome] of [
  ['fail', { type: 'retry', delayMs: 0, isBackoff: true }],
  ['go on running', undefined],
] as const) {
  it(`successes are written together, and leave tasks between them alone that ${between}`, async () => {
    const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']
    await store.enqueue(ids.map(id => ({ id, kind: 'k', payload: '{}' })))
    const tasks = await claimAll()
    const isBetween = (_: ClaimedTask, n: number) => n % 3 === 1
    const times = { startedAt: clock.now(), endedAt: clock.now(), worker: 'w' }
    const failed = { attempt: 1, verdict, error: 'slow', group, ...times }
    const others = outcome === undefined ? [] : tasks.filter(isBetween)
    const settled = await store.settle([
      ...tasks
        .filter((task, n) => !isBetween(task, n))
        .map(({ id, token }) => ({
          id,
          token,
          outcome: { type: 'succeeded' as const },
          attempt: { attempt: 1, ...times },
        })),
      ...others.map(({ id, token }) => ({ id, token, outcome: outcome as Outcome, attempt: failed })),
    ])
    expect(new Set(settled.map(({ result }) => result))).toEqual(new Set(['settled']))
    const left = outcome === undefined ? 'running' : 'waiting'
    const expected = ids.map((_, n) => (n % 3 === 1 ? left : 'succeeded'))
    expect(await Promise.all(ids.map(async id => (await store.get(id))?.status))).toEqual(expected)
    expect(await store.count({})).toMatchObject({ succeeded: 6, [left]: 3 })
  })
}

it('a claim starts all tasks that it takes, those that follow each other and others', async () => {
  const ids = Array.from({ length: 60 }, (_, n) => `t${String(n).padStart(2, '0')}`)
  // Those with a higher priority come first, and lie between the others.
  await store.enqueue(ids.map((id, n) => ({ id, kind: 'k', payload: '{}', priority: n % 20 === 0 ? 1 : 0 })))
  const request = { worker: 'w', leaseMs: LEASE_MS, rooms: [{ kinds: ['k'] }], limit: 50, isIdle: true }
  const { tasks } = await store.claim(request)
  const claimed = new Set(tasks.map(({ id }) => id))
  expect(claimed.size).toBe(50)
  for (const id of ids) expect((await store.get(id))?.status).toBe(claimed.has(id) ? 'running' : 'waiting')
  expect((await store.claim(request)).tasks).toHaveLength(10)
})

it('successes that are written together are refused one by one', async () => {
  await store.enqueue(['a', 'b', 'c', 'd', 'e', 'f'].map(id => ({ id, kind: 'k', payload: '{}' })))
  const tasks = await claimAll()
  await settle(tasks.slice(0, 1), { type: 'succeeded', result: '1' }, {})
  const times = { startedAt: clock.now(), endedAt: clock.now(), worker: 'w' }
  const settled = await store.settle(
    tasks.map(({ id, token }) => ({
      id: id === 'b' ? 'c' : id,
      token,
      outcome: { type: 'succeeded' },
      attempt: { attempt: 1, ...times },
    })),
  )
  expect(settled.map(({ result }) => result)).toEqual(['stale', 'stale', 'settled', 'settled', 'settled', 'settled'])
  expect(await store.count({})).toMatchObject({ running: 1, succeeded: 5 })
  expect(await store.get('a')).toMatchObject({ result: '1' })
  expect(await store.get('b')).toMatchObject({ status: 'running' })
})
