import { setImmediate } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'

import { MemoryStore, type OperationRecord, type StoreContract } from '../../store/internal.js'
import { defineTask, type StandardSchema, Worker } from '../../task/index.js'
import { fakeClock } from '../../testing/index.js'
import { sleep } from '../../time/index.js'
import { canaryAnswers } from './canary.js'
import { driveOperation } from './drive-operation.js'

type Handler = (payload: { readonly n: number }) => void | Promise<void>

const idOf = (n: number) => `t${String(n).padStart(3, '0')}`

/** A store with dead letters, `t000` first, a second apart, and a worker that is not started. */
async function scene(count: number, handler: Handler, keyOf: (n: number) => string = () => '') {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const ids = Array.from({ length: count }, (_, n) => idOf(n))
  await store.enqueue(ids.map((id, n) => ({ id, kind: 'k', payload: JSON.stringify({ n }), key: keyOf(n) })))
  for (let n = 0; n < count; n++) {
    const rooms = [{ kinds: ['k'] }]
    const { tasks } = await store.claim({ worker: 'w', leaseMs: 1, rooms, limit: 1, isIdle: true })
    const outcome = { type: 'dead', reason: 'final_error' } as const
    await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome })))
    await clock.advance(1000)
  }
  await store.heartbeat({ worker: 'w', leaseMs: 1 })
  await store.leave('w')
  const k = defineTask('k', {
    policy: { attempts: 2, backoff: { kind: 'fixed', base: '1s' } },
    handler: (payload: { readonly n: number }) => handler(payload),
  })
  return { clock, store, ids, worker: new Worker(store, { tasks: [k], clock, name: 'worker' }) }
}

async function create(store: StoreContract, settings: OperationRecord['settings'] = {}): Promise<string> {
  const set = { filter: { kind: 'k' }, until: await store.now() }
  return (await store.operations.create({ act: 'redrive', set, by: { who: 'ann' }, settings })).id
}

describe('a worker', () => {
  it('advances operations that nobody drives to their outcome', async () => {
    const { clock, store, worker } = await scene(30, ({ n }) => {
      if (n === 7) throw new Error('still broken')
    })
    const id = await create(store)
    await worker.start()
    await clock.advance('60s')
    expect(await store.operations.get(id)).toMatchObject({
      status: 'done',
      moved: 30,
      tally: { passed: 29, failed: 1, succeeded: 29, dead: 1 },
    })
    expect(await store.operations.deaths(id)).toMatchObject([{ kind: 'k', count: 1 }])
    await worker.stop()
  })

  it('gives every operation its turn, though many wait for the answers of their members', async () => {
    let answer = () => {}
    const answered = new Promise<void>(resolve => {
      answer = resolve
    })
    const { clock, store, worker } = await scene(
      240,
      () => answered,
      n => `key-${n % 12}`,
    )
    const until = await store.now()
    const ids: string[] = []
    for (let n = 0; n < 12; n++) {
      const set = { filter: { kind: 'k', key: `key-${n}` }, until }
      ids.push((await store.operations.create({ act: 'redrive', set, by: { who: 'ann' }, settings: { canary: 5 } })).id)
    }
    await worker.start()
    await clock.advance('60s')
    const operations = await Promise.all(ids.map(id => store.operations.get(id)))
    expect(operations.map(operation => operation?.moved)).toEqual(ids.map(() => 5))
    answer()
    await clock.advance('60s')
    expect((await store.count({})).succeeded).toBe(240)
    await worker.stop()
  })

  it('moves no more than the canary when that fails, and stops the operation', async () => {
    const { clock, store, worker } = await scene(50, () => {
      throw new Error('still broken')
    })
    const id = await create(store, { canary: 10, stopAbove: 0.2 })
    await worker.start()
    await clock.advance('60s')
    const operation = await store.operations.get(id)
    expect(operation).toMatchObject({ status: 'stopped', moved: 10 })
    expect(operation?.reason).toMatch(/^The first attempt failed for \d+ of the first \d+ members, above 20 %\.$/)
    expect((await store.count({ status: 'dead' })).dead).toBe(50)
    await worker.stop()
  })

  it('spreads the canary over the ages of the set', async () => {
    const ran: number[] = []
    const { clock, store, worker } = await scene(100, ({ n }) => {
      ran.push(n)
      throw new Error('still broken')
    })
    await create(store, { canary: 5 })
    await worker.start()
    await clock.advance('30s')
    const first = [...new Set(ran)].sort((a, b) => a - b)
    expect(first).toHaveLength(5)
    for (let n = 1; n < first.length; n++) expect((first[n] ?? 0) - (first[n - 1] ?? 0)).toBeGreaterThanOrEqual(15)
    await worker.stop()
  })

  it('begins a stopped canary anew, with members that were refused before', async () => {
    const fail = () => {
      throw new Error('still broken')
    }
    const { clock, store, worker } = await scene(40, fail, n => (n < 3 ? 'open' : 'closed'))
    await store.pause({ kind: 'k', key: 'closed' }, { isPaused: true })
    const id = await create(store, { canary: 10, stopAbove: 0.2 })
    await worker.start()
    await clock.advance('30s')
    expect(await store.operations.get(id)).toMatchObject({ status: 'stopped', moved: 3 })
    await store.pause({ kind: 'k', key: 'closed' }, { isPaused: false })
    await store.operations.change(id, 'continue', { who: 'ann' })
    await clock.advance('30s')
    const { reason, progress } = (await store.operations.get(id)) ?? {}
    expect(reason).toMatch(/^The first attempt failed for \d+ of the first \d+ members/)
    expect(progress?.canary).toHaveLength(10)
    await worker.stop()
  })

  it('gives an operation its turn, however many newer ones wait for their members to end', async () => {
    const { clock, store, ids, worker } = await scene(
      112,
      () => {},
      n => (n === 0 ? '' : 'stuck'),
    )
    await store.limit({ kind: 'k', key: 'stuck' }, { concurrency: 0 })
    const by = { who: 'ann' }
    const signal = new AbortController().signal
    const [first = '', ...others] = ids
    const oldest = await store.operations.create({ act: 'redrive', set: { ids: [first] }, by })
    await clock.advance(1)
    for (const one of others) {
      const { id } = await store.operations.create({ act: 'redrive', set: { ids: [one] }, by })
      await driveOperation(store, id, { driver: 'd', signal, clock })
    }
    await worker.start()
    await clock.advance('60s')
    expect(await store.operations.get(oldest.id)).toMatchObject({ status: 'done', moved: 1 })
    await worker.stop()
  })

  it('runs the members of an ordered lane in their order', async () => {
    const ran: number[] = []
    const { clock, store, worker } = await scene(
      20,
      ({ n }) => void ran.push(n),
      () => 'tenant',
    )
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await create(store, { perSecond: 40 })
    await worker.start()
    await clock.advance('60s')
    expect(ran).toEqual(Array.from({ length: 20 }, (_, n) => n))
    await worker.stop()
  })

  it('leaves members alone whose lane is paused, and those of a kind that no live worker has', async () => {
    const { clock, store, worker } = await scene(3, () => {})
    await store.pause({ kind: 'k' }, { isPaused: true })
    const paused = await create(store)
    await worker.start()
    await clock.advance('30s')
    expect(await store.operations.get(paused)).toMatchObject({
      status: 'done',
      moved: 0,
      progress: { refused: { lane_paused: 3 } },
    })
    await worker.stop()
    await store.pause({ kind: 'k' }, { isPaused: false })
    const other = new Worker(store, { tasks: [defineTask('other', { handler: () => {} })], clock, name: 'other' })
    const unrun = await create(store)
    await other.start()
    await clock.advance('30s')
    expect(await store.operations.get(unrun)).toMatchObject({ moved: 0, progress: { refused: { no_worker: 3 } } })
    await other.stop()
  })
})

describe('payloads', () => {
  const schema: StandardSchema<{ n: number }> = {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: value => {
        const { n } = value as { n: number }
        return n % 2 === 0 ? { value: { n } } : { issues: [{ message: 'Expected an even number', path: ['n'] }] }
      },
    },
  }

  it('are checked by a worker that has their schema, before it moves them', async () => {
    const { clock, store } = await scene(6, () => {})
    const id = await create(store)
    const worker = new Worker(store, { tasks: [defineTask('k', { payload: schema, handler: () => {} })], clock })
    await worker.start()
    await clock.advance('60s')
    expect(await store.operations.get(id)).toMatchObject({
      status: 'done',
      moved: 3,
      progress: { refused: { payload_invalid: 3 } },
      tally: { succeeded: 3, dead: 0 },
    })
    await worker.stop()
  })

  it('are patched and checked by a worker, canary first', async () => {
    const ran: unknown[] = []
    const { clock, store } = await scene(30, () => {})
    const id = await create(store, { canary: 3, patch: { n: 4, by: 'ann' } })
    const handler = (payload: { readonly n: number }) => void ran.push(payload)
    const worker = new Worker(store, { tasks: [defineTask('k', { payload: schema, handler })], clock })
    await worker.start()
    await clock.advance('60s')
    expect(await store.operations.get(id)).toMatchObject({ status: 'done', moved: 30, tally: { succeeded: 30 } })
    expect(ran).toEqual(Array.from({ length: 30 }, () => ({ n: 4 })))
    const worse = await create(store, { patch: { n: 5 } })
    await clock.advance('60s')
    expect(await store.operations.get(worse)).toMatchObject({ status: 'done', moved: 0 })
    await worker.stop()
  })

  it.each([0, 1, 2])('are patched once, though drivers die around step %d', async deadly => {
    const { clock, store, ids } = await scene(10, () => {})
    const id = await create(store, { perSecond: 40, patch: { seen: true } })
    const step = store.operations.step.bind(store.operations)
    let steps = 0
    const dying = vi.spyOn(store.operations, 'step').mockImplementation(async (...args) => {
      const number = steps++
      if (number === deadly) throw new Error('killed before the step')
      const stepped = await step(...args)
      if (number === deadly + 1) throw new Error('killed before its answer')
      return stepped
    })
    const signal = new AbortController().signal
    for (let n = 0; n < 3; n++) {
      const driving = driveOperation(store, id, { driver: `d${n}`, signal, clock }).catch(() => {})
      await clock.advance('30s')
      await driving
    }
    expect(dying.mock.calls.length).toBeGreaterThan(deadly + 1)
    expect(await store.operations.get(id)).toMatchObject({ status: 'settling', moved: 10 })
    for (const [n, task] of ids.entries()) {
      expect(await store.get(task)).toMatchObject({ payload: JSON.stringify({ n, seen: true }) })
      const rows = (await store.ledger(task)).filter(({ outcome }) => outcome === 'redriven')
      expect(rows).toMatchObject([{ before: { payload: JSON.stringify({ n }) } }])
    }
  })
})

it('an operation that waits for a fix judges only workers that have it', async () => {
  const { clock, store } = await scene(20, () => {})
  let isBroken = true
  const task = defineTask('k', {
    policy: { attempts: 1 },
    handler: () => {
      if (isBroken) throw new Error('not fixed yet')
    },
  })
  const workerOf = (release: string) => new Worker(store, { tasks: [task], clock, name: `w-${release}`, release })
  const fixedIn = { release: '2.0.0', before: ['1.0.0'] }
  const id = await create(store, { canary: 5, fixedIn })
  const older = workerOf('1.0.0')
  await older.start()
  await clock.advance('60s')
  expect(await store.operations.get(id)).toMatchObject({ status: 'planned', moved: 0, driver: undefined })
  await older.stop()
  isBroken = false
  const newer = workerOf('2.0.0')
  await newer.start()
  await clock.advance('60s')
  expect(await store.operations.get(id)).toMatchObject({ status: 'done', moved: 20, tally: { passed: 20, failed: 0 } })
  await newer.stop()
})

it('however many drive at once, each letter moves once', async () => {
  const { clock, store } = await scene(40, () => {})
  const id = await create(store)
  const signal = new AbortController().signal
  const drivers = Array.from({ length: 4 }, (_, n) => driveOperation(store, id, { driver: `d${n}`, signal, clock }))
  expect((await Promise.all(drivers)).filter(Boolean)).toHaveLength(1)
  expect(await store.operations.get(id)).toMatchObject({ status: 'settling', moved: 40 })
  for (let n = 0; n < 40; n++) {
    const outcomes = (await store.ledger(idOf(n))).map(({ outcome }) => outcome)
    expect(outcomes.filter(outcome => outcome === 'redriven')).toHaveLength(1)
  }
})

it('a set that takes longer to read than a lease lasts is moved, though others want to drive', async () => {
  const { clock, store } = await scene(3, () => {})
  const id = await create(store)
  const members = store.operations.members.bind(store.operations)
  vi.spyOn(store.operations, 'members').mockImplementation(async (...args) => {
    await sleep(5000, clock)
    return members(...args)
  })
  const stop = new AbortController()
  const drive = async (driver: string) => {
    while (!stop.signal.aborted) {
      await driveOperation(store, id, { driver, signal: stop.signal, clock, leaseMs: 1000 })
      await sleep(100, clock)
    }
  }
  const drivers = Promise.all([drive('a'), drive('b')])
  await clock.advance('30s')
  expect(await store.operations.get(id)).toMatchObject({ status: 'settling', moved: 3 })
  stop.abort()
  await clock.advance('1s')
  await drivers
})

it('without any worker all members move at once, and wait', async () => {
  const { clock, store } = await scene(120, () => {})
  const id = await create(store)
  await driveOperation(store, id, { driver: 'd', signal: new AbortController().signal, clock })
  expect(await store.operations.get(id)).toMatchObject({ status: 'settling', moved: 120, driver: undefined })
})

it('takes the first attempt of a worker that has the fix as the answer', async () => {
  const { store } = await scene(1, () => {})
  await store.redrive(['t000'], { who: 'ann' })
  const attempt = async (release: string, outcome: 'retry' | 'succeeded') => {
    const rooms = [{ kinds: ['k'] }]
    const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 1000, rooms, limit: 1, isIdle: true })
    const entry = { attempt: 1, startedAt: now, endedAt: now, worker: 'w', release }
    const end = outcome === 'retry' ? { type: outcome, delayMs: 0, isBackoff: false } : { type: outcome }
    await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome: end, attempt: entry })))
  }
  const fixedIn = { release: '2.0.0', before: [] }
  const answers = () => canaryAnswers(store, ['t000'], fixedIn)
  await attempt('1.0.0', 'retry')
  expect(await answers()).toEqual({ passed: 0, failed: 0, pending: 1 })
  await attempt('2.0.0', 'succeeded')
  expect(await answers()).toEqual({ passed: 1, failed: 0, pending: 0 })
})

it('counts the answer of a member whose attempt ends while it is looked at', async () => {
  const { store } = await scene(1, () => {})
  await store.redrive(['t000'], { who: 'ann' })
  const rooms = [{ kinds: ['k'] }]
  const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 1000, rooms, limit: 1, isIdle: true })
  const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w' }
  const outcome = { type: 'dead', reason: 'final_error' } as const
  const get: StoreContract['get'] = async id => {
    await setImmediate()
    await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
    return store.get(id)
  }
  const answers = await canaryAnswers({ get, ledgers: ids => store.ledgers(ids) }, ['t000'])
  expect(answers).toEqual({ passed: 0, failed: 1, pending: 0 })
})
