import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fakeClock } from '../../testing/fake-clock.js'
import { openSqlite, type SqliteStore } from './internal.js'

const HOURS = 3_600_000
const LEASE = 30_000
const RUN = {
  id: 'r',
  pipeline: 'p',
  version: '1',
  stages: ['s'],
  settings: {
    failureBudget: 1,
    stageBudgets: {},
    checkInterval: 100,
    budgetWindow: undefined,
    completedFrom: 1,
    partialFrom: 0,
    maxUnfinished: 100,
    concurrency: {},
  },
}

/** A process whose clock was two hours ahead, and then died: everything that it leased ends in two hours. */
describe('after a clock that was two hours ahead', () => {
  const clock = fakeClock(Date.UTC(2030, 0, 1))
  let folder: string
  let store: SqliteStore
  let operationId: string
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'redrive-'))
    const path = join(folder, 'redrive.db')
    const ahead = await openSqlite(path, { clock: fakeClock(clock.now() + 2 * HOURS) })
    await ahead.heartbeat({ worker: 'dead', leaseMs: LEASE, kinds: ['k'] })
    await ahead.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
    await ahead.claim({ worker: 'dead', leaseMs: LEASE, limit: 1, rooms: [{ kinds: ['k'] }], isIdle: false })
    await ahead.idempotency.claim('key', { fingerprint: 'f', leaseMs: LEASE })
    await ahead.runs.open({ ...RUN, reader: { name: 'dead', leaseMs: LEASE } })
    const set = { filter: { kind: 'k' }, until: clock.now() }
    const operation = await ahead.operations.create({ act: 'redrive', set, by: { who: 'ann' } })
    await ahead.operations.take(operation.id, 'dead', LEASE)
    operationId = operation.id
    await ahead.close()
    store = await openSqlite(path, { clock })
  })
  afterEach(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const beat = (worker = 'w') => store.heartbeat({ worker, leaseMs: LEASE, kinds: ['k'] })

  it('a dead worker loses its tasks when a lease has passed, and is not listed as alive', async () => {
    expect(await store.workers()).toEqual([])
    expect((await beat()).rescued).toBe(0)
    expect(await store.workers()).toMatchObject([
      { name: 'dead', beatAt: clock.now(), until: clock.now() + LEASE },
      { name: 'w' },
    ])
    await clock.advance(LEASE)
    expect((await beat()).rescued).toBe(1)
    expect((await store.workers()).map(({ name }) => name)).toEqual(['w'])
  })

  it('a worker that is alive keeps its tasks, and its lease has its length again', async () => {
    for (let beats = 0; beats < 4; beats++) {
      await beat('dead')
      await clock.advance(LEASE / 2)
      expect((await beat()).rescued).toBe(0)
    }
    await clock.advance(LEASE)
    expect((await beat()).rescued).toBe(1)
  })

  it('a key is free when a lease has passed', async () => {
    const claim = () => store.idempotency.claim('key', { fingerprint: 'f', leaseMs: 5 })
    expect(await claim()).toMatchObject({ state: 'in_progress', leaseLeftMs: LEASE })
    await clock.advance(LEASE - 1)
    expect(await claim()).toMatchObject({ state: 'in_progress', leaseLeftMs: 1 })
    await clock.advance(1)
    expect(await claim()).toMatchObject({ state: 'fresh' })
  })

  it('an operation is advanced by another driver', async () => {
    expect(await store.operations.take(operationId, 'w', LEASE)).toBeDefined()
    expect(await store.operations.take(operationId, 'x', LEASE)).toBeUndefined()
  })

  it('a run is interrupted, and another reader takes it over', async () => {
    expect((await store.runs.get('r'))?.status).toBe('interrupted')
    expect((await store.runs.read('r', 'w', LEASE)).reader).toMatchObject({ name: 'w' })
  })
})
