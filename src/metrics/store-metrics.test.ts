import { Registry } from 'prom-client'
import { expect, it, onTestFinished } from 'vitest'
import { timetable } from '../calendar/internal.js'
import { schedule } from '../schedule/index.js'
import { MemoryStore } from '../store/internal.js'
import { declareTask } from '../task/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { serveMetrics, storeMetrics } from './index.js'

function values(text: string): string[] {
  return text.split('\n').filter(line => line.startsWith('redrive'))
}

async function storeWithWork(clock: FakeClock): Promise<MemoryStore> {
  const store = new MemoryStore({ clock })
  const at = clock.now()
  await store.enqueue([
    { kind: 'mail', category: 'news', key: 'ada', payload: '{}' },
    { kind: 'mail', category: 'news', key: 'bob', payload: '{}' },
    { kind: 'mail', category: 'news', key: 'bob', payload: '{}', runAt: at + 60_000 },
  ])
  await store.pause({ kind: 'mail', key: 'ada' }, { isPaused: true })
  await clock.advance('20s')
  return store
}

it('the gauges tell of all work in a store, as of the scrape', async () => {
  const clock = fakeClock()
  const store = await storeWithWork(clock)
  const registry = new Registry()
  await storeMetrics(store, { registry })
  await store.heartbeat({ worker: 'w', leaseMs: 30_000 })
  const labels = '{kind="mail",category="news"}'
  expect(values(await registry.metrics())).toEqual([
    'redrive_store_up 1',
    'redrive_workers 1',
    'redrive_schedule_lag_seconds 0',
    `redrive_waiting${labels} 3`,
    `redrive_ready${labels} 1`,
    `redrive_ready_age_seconds${labels} 20`,
    `redrive_limited${labels} 0`,
    `redrive_paused${labels} 1`,
    `redrive_held${labels} 0`,
    `redrive_budgeted${labels} 0`,
    `redrive_running${labels} 0`,
    `redrive_dead${labels} 0`,
  ])
  await store.claim({ worker: 'w', leaseMs: 30_000, rooms: [{ kinds: ['mail'] }], limit: 1, isIdle: true })
  await clock.advance('31s')
  const text = await registry.metrics()
  expect(text).toContain('redrive_workers 0')
  expect(text).toContain(`redrive_ready_age_seconds${labels} 0`)
  expect(text).toContain(`redrive_running${labels} 1`)
})

it('a scrape asks the store once', async () => {
  const store = new MemoryStore()
  const registry = new Registry()
  let asked = 0
  const stats = () => {
    asked++
    return store.stats()
  }
  await storeMetrics(Object.assign(new MemoryStore(), { stats }), { registry })
  await registry.metrics()
  expect(asked).toBe(1)
  await registry.metrics()
  expect(asked).toBe(2)
})

it.each([
  ['fails', () => Promise.reject(new Error('The database is down'))],
  ['does not answer in time', () => new Promise<never>(() => {})],
])('while the store %s, the scrape succeeds and says so, without stale figures', async (_, stats) => {
  const clock = fakeClock()
  const store = await storeWithWork(clock)
  const registry = new Registry()
  let isUp = true
  const { budgets, groups, schedules } = store
  const parts = { stats: () => (isUp ? store.stats() : stats()), budgets, groups, schedules }
  await storeMetrics(Object.assign(new MemoryStore(), parts), { registry, timeoutMs: 20 })
  expect(values(await registry.metrics()).length).toBe(12)
  isUp = false
  expect(values(await registry.metrics())).toEqual(['redrive_store_up 0'])
  isUp = true
  expect(values(await registry.metrics()).length).toBe(12)
})

it('a gate of a failure budget is 1 while it is open, 0.5 half open and 0 closed', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const registry = new Registry()
  await storeMetrics(store, { registry })
  await store.budgets.set({ kind: 'mail' }, { failures: { share: 0.5, minAttempts: 1 } })
  const gate = async () => values(await registry.metrics()).find(line => line.startsWith('redrive_gate_open'))
  expect(await gate()).toBe('redrive_gate_open{kind="mail",category="*"} 0')
  await store.enqueue([{ kind: 'mail', payload: '{}' }])
  const request = { worker: 'w', leaseMs: 30_000, rooms: [{ kinds: ['mail'] }], limit: 1, isIdle: true }
  for (const { id, token } of (await store.claim(request)).tasks) {
    const verdict = { class: 'retryable', code: 'http_503' } as const
    const attempt = { attempt: 1, startedAt: clock.now(), endedAt: clock.now(), worker: 'w', verdict }
    await store.settle([{ id, token, outcome: { type: 'retry', delayMs: 0, isBackoff: true }, attempt }])
  }
  expect(await gate()).toBe('redrive_gate_open{kind="mail",category="*"} 1')
  await clock.advance('30s')
  expect(await gate()).toBe('redrive_gate_open{kind="mail",category="*"} 0.5')
})

it('retries that a budget holds are counted, and a kind without failure budget has no gate', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const registry = new Registry()
  await storeMetrics(store, { registry })
  await store.budgets.set({ kind: 'mail' }, { retries: { share: 0.2, floor: 0.1 } })
  await store.enqueue([1, 2, 3].map(() => ({ kind: 'mail', payload: '{}' })))
  const request = { worker: 'w', leaseMs: 30_000, rooms: [{ kinds: ['mail'] }], limit: 3, isIdle: true }
  const verdict = { class: 'retryable', code: 'http_503' } as const
  const attempt = { attempt: 1, startedAt: clock.now(), endedAt: clock.now(), worker: 'w', verdict }
  const outcome = { type: 'retry', delayMs: 0, isBackoff: true } as const
  const { tasks } = await store.claim(request)
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
  expect((await store.claim(request)).tasks.length).toBe(1)
  const lines = values(await registry.metrics())
  expect(lines).toContain('redrive_budgeted{kind="mail",category=""} 2')
  expect(lines.filter(line => line.startsWith('redrive_gate_open'))).toEqual([])
})

it('failure groups with tasks are counted by their state', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const registry = new Registry()
  await storeMetrics(store, { registry })
  const states = async () =>
    values(await registry.metrics()).filter(line => line.startsWith('redrive_failure_groups') && !line.endsWith(' 0'))
  expect(await states()).toEqual([])
  const fail = async (id: string) => {
    const group = { id, kind: 'mail', code: 'http_503', errorName: 'Error', pattern: id, frames: [] }
    const verdict = { class: 'final', code: 'http_503' } as const
    const attempt = {
      attempt: 1,
      startedAt: await store.now(),
      endedAt: await store.now(),
      worker: 'w',
      verdict,
      group,
    }
    const tried = { outcome: { type: 'dead', reason: 'final_error' }, attempt } as const
    await store.enqueue([{ kind: 'mail', payload: '{}', tried }])
  }
  for (const id of ['1-a', '1-b', '1-c', '1-c']) await fail(id)
  await store.groups.mark('1-b', { state: 'acknowledged' }, { who: 'ann' })
  await store.groups.mark('1-c', { state: 'fixed' }, { who: 'ann' })
  const of = (state: string, count: number) => `redrive_failure_groups{kind="mail",state="${state}"} ${count}`
  expect(await states()).toEqual([of('new', 1), of('acknowledged', 1), of('fixed', 1)])
  const overlapping = await Promise.all([states(), states()])
  expect(overlapping[1]).toEqual(overlapping[0])
  expect(overlapping[0]).toEqual([of('new', 1), of('acknowledged', 1), of('fixed', 1)])
  await clock.advance('1s')
  await fail('1-c')
  await fail('1-d')
  expect(await states()).toEqual([of('new', 2), of('acknowledged', 1), of('regressed', 1)])
  const dead = await store.list({ status: 'dead', group: '1-c' }, { limit: 10 })
  await store.discard(
    dead.items.map(({ id }) => id),
    { who: 'ann', why: 'done' },
  )
  expect(await states()).toEqual([of('new', 2), of('acknowledged', 1)])
})

it('kinds beyond a number are added up', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const kinds = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) => ({ kind: `k${from + n}`, payload: '{}' }))
  await store.enqueue(kinds(0, 201))
  await clock.advance('10s')
  await store.enqueue(kinds(201, 250))
  const registry = new Registry()
  await storeMetrics(store, { registry })
  const text = await registry.metrics()
  expect(text).toContain('redrive_ready{kind="other",category="other"} 50')
  expect(text).toContain('redrive_ready_age_seconds{kind="other",category="other"} 10')
})

it('metrics are served on loopback, at /metrics alone', async () => {
  const registry = new Registry()
  await storeMetrics(new MemoryStore(), { registry })
  const server = await serveMetrics({ port: 0, registry })
  onTestFinished(() => server.close())
  expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/)
  const response = await fetch(server.url)
  expect(response.headers.get('content-type')).toBe(registry.contentType)
  expect(await response.text()).toContain('redrive_store_up 1')
  expect((await fetch(new URL('/secrets', server.url))).status).toBe(404)
  const port = Number(new URL(server.url).port)
  await expect(serveMetrics({ port, registry })).rejects.toMatchObject({ code: 'EADDRINUSE' })
})

it('the lag of schedules is the time since the oldest slot was due that nobody has fired', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const registry = new Registry()
  await storeMetrics(store, { registry })
  const spec = schedule('tick', { every: '1m', task: declareTask('tick') }).spec
  await store.schedules.set(spec, { who: 'anna' }, timetable)
  const lag = async () => (await registry.metrics()).match(/^redrive_schedule_lag_seconds (\S+)$/m)?.[1]
  expect(await lag()).toBe('0')
  const { dueAt = 0, now } = await store.schedules.next()
  await clock.advance(dueAt - now + 90_000)
  expect(await lag()).toBe('90')
  await store.schedules.fire(10, timetable)
  expect(await lag()).toBe('0')
})
