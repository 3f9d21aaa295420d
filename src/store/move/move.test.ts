import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { checkInvariants } from '../../../test/conformance/invariants.js'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { hashJson, OptionError } from '../../policy/index.js'
import { defineTask, Worker } from '../../task/index.js'
import { type FakeClock, fakeClock } from '../../testing/index.js'
import { MoveDifferenceError, MoveRefusedError, moveStore, planMove } from '../index.js'
import type { Movable, MovedRow, MoveProgress, Outcome, Section } from '../internal.js'

import { openPostgres } from '../postgres/internal.js'
import { openSqlite } from '../sqlite/internal.js'

import { ENTRY_COLUMNS, SECTIONS } from './movable.js'

let pool: pg.Pool
let folder: string
let clock: FakeClock
let count = 0
const opened: Movable[] = []

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-move-'))
  pool = new pg.Pool({ connectionString: await freshDatabase() })
}, 120_000)
afterAll(async () => {
  await pool.end()
  rmSync(folder, { recursive: true })
})
beforeEach(() => {
  clock = fakeClock()
})
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
})

const open = {
  sqlite: () => openSqlite(join(folder, `${++count}.db`), { clock }),
  postgres: () => openPostgres(pool, { schema: `move_${++count}`, clock, listen: false }),
}
type Engine = keyof typeof open
const ENGINES = Object.keys(open) as Engine[]

/** An empty store. */
async function empty(engine: Engine): Promise<Movable> {
  const store = await open[engine]()
  opened.push(store)
  return store
}

const KINDS = ['blocked', 'keyed', 'moved', 'mail', 'report', 'quoted', 'paused', 'tenants', 'pipeline:p']
const WEIRD = 'NUL \0, tab \t, emoji 🚀, quotes \' " \\, mark \u0001, line\u2028 end'

/** Runs the next tasks of a kind, and settles them with these outcomes. */
async function settleNext(store: Movable, kind: string, outcomes: readonly Outcome[], facts = {}): Promise<string[]> {
  const { tasks, now } = await store.claim({
    worker: 'w',
    leaseMs: 60_000,
    rooms: [{ kinds: [kind] }],
    limit: outcomes.length,
    isIdle: true,
  })
  expect(tasks).toHaveLength(outcomes.length)
  const settlements = tasks.map(({ id, token, attempts }, index) => ({
    id,
    token,
    outcome: outcomes[index] as Outcome,
    used: { tokens: 1000.1, 'dollars 🚀': 1 / 3 },
    attempt: {
      attempt: attempts + 1,
      startedAt: now - 5,
      endedAt: now,
      worker: 'w \u0001🚀"',
      release: '1.8 🚀',
      ...facts,
    },
  }))
  for (const { id, token } of tasks) {
    const done = { name: `create '🚀'`, isDone: true, result: '{"of":"\\u0000 🚀"}', state: '{"ledger":[]}' }
    const failing = { name: 'charge', isDone: false, result: undefined, state: '{}' }
    for (const step of [done, failing]) expect(await store.recordStep({ id, token, ...step })).toBe(true)
  }
  const settled = await store.settle(settlements)
  expect(settled.map(({ result }) => result)).toEqual(outcomes.map(() => 'settled'))
  return tasks.map(({ id }) => id)
}

/** A store in which everything has happened that can happen to a store. */
async function wellUsed(engine: Engine): Promise<Movable> {
  const store = await empty(engine)
  const failure = {
    verdict: { class: 'retryable', code: `E ${WEIRD}` },
    error: WEIRD,
    group: { id: '1-aa', kind: 'mail', code: `E ${WEIRD}`, errorName: 'E', pattern: WEIRD, frames: [WEIRD] },
    random: 0.1 + 0.2,
    policy: 'p1',
    notes: { step: 'charge', log: [{ at: 1, text: 'quotes \' " \\ 🚀' }] },
  } as const
  const limited = { verdict: { class: 'rate_limited', code: '429', retryAfterMs: 1234 }, error: 'slow down' } as const
  await store.policies.keep('p1', '{"attempts":3}')
  await store.limit({ kind: 'mail', category: 'bulk', key: '🚀' }, { concurrency: 3, perSecond: 0.3 })
  await store.limit({ kind: 'tenants', key: 'later' }, { perSecond: 0.1 })
  await store.limit({ kind: 'paused', key: 'but-not-me' }, { isOrdered: true })
  const rates = { tokens: { perSecond: 0.3, burst: 9 } }
  await store.limit({ kind: 'quota' }, { isShared: true, rates, isDeclared: true })
  await store.budgets.set({ kind: 'mail' }, { failures: { share: 0.3, minAttempts: 1000 } })
  await store.budgets.set({ kind: 'report', category: 'bulk' }, { failures: { share: 0.5 }, isDeclared: true })
  await store.pause({ kind: 'paused' }, { isPaused: true, who: 'ada', why: WEIRD })
  await store.pause({ kind: 'paused', key: 'but-not-me' }, { isPaused: false })
  await store.limit({ kind: 'blocked' }, { isOrdered: true, onDead: 'block' })
  const lanes = ['', 'a', 'b', '🚀', '\uffee'].map(key => ({ kind: 'tenants', category: 'bulk', key }))
  await store.enqueue([
    // Astral characters come before the last of the others in UTF-16, and after them in UTF-8.
    ...['🚀', '\uffee', 'é', '\'"', ' ', 'Z', 'a', ''].map(id => ({ id: `mail-${id}`, kind: 'mail', payload: '{}' })),
    { id: ' ', kind: 'quoted', payload: JSON.stringify({ WEIRD }), policy: '{"attempts":7}' },
    { id: 'later', kind: 'report', payload: 'null', runAt: clock.now() + 3_600_000, priority: 0.1, submittedAt: 12 },
    { kind: 'paused', payload: '[]' },
    { kind: 'paused', key: 'but-not-me', payload: '[]' },
    ...lanes.flatMap(lane => [1, 2, 3].map(priority => ({ ...lane, priority, payload: `{"of":"${lane.key}"}` }))),
  ])
  await clock.advance(1)

  await store.enqueue(['letter', 'behind'].map(id => ({ id, kind: 'blocked', key: 'a', payload: '1' })))
  await settleNext(store, 'blocked', [{ type: 'dead', reason: 'final_error' }])
  await settleNext(store, 'mail', [{ type: 'succeeded', result: '{"sent":"🚀"}' }, { type: 'succeeded' }])
  await settleNext(store, 'mail', [{ type: 'skipped', reason: WEIRD }])
  const dead: Outcome = { type: 'dead', reason: 'attempts_exhausted' }
  const retry: Outcome = { type: 'retry', delayMs: 0, isBackoff: true }
  const [redriven = ''] = await settleNext(store, 'mail', [dead, dead, retry], failure)
  await store.redrive([redriven], { who: 'ada', why: WEIRD })
  await settleNext(store, 'mail', [{ type: 'later', delayMs: 5_000 }])
  await settleNext(store, 'mail', [{ type: 'retry', delayMs: 60_000, isBackoff: true }], failure)
  await settleNext(store, 'tenants', [{ type: 'deferred', delayMs: 600_000 }], limited)
  await settleNext(store, 'tenants', [{ type: 'succeeded' }], failure)

  const latest = { key: WEIRD.replaceAll('\0', ''), while: 'unfinished', conflict: 'after' } as const
  await store.enqueue([{ id: 'keyed', kind: 'keyed', payload: '1', unique: latest }])
  await settleNext(store, 'keyed', [{ type: 'retry', delayMs: 60_000, isBackoff: true }])
  const throttled = { key: 'hourly', while: 'within', withinMs: 3_600_000, conflict: 'keep' } as const
  await store.enqueue([
    { id: 'queued', kind: 'keyed', payload: '2', unique: latest },
    { id: 'throttled', kind: 'keyed', payload: '3', unique: throttled },
  ])

  await store.importRows('record', [
    { type: 'slot', id: "nightly@1 🚀'", place: 1_700_000_000_000, open: 1, state: JSON.stringify({ why: WEIRD }) },
    { type: 'slot', id: 'nightly@2', place: 2, open: 0, state: '{}' },
    { type: 'note', id: 'nightly', place: 3, open: 1, state: '{}' },
  ])

  // A success without an attempt leaves no row in the ledger.
  await store.enqueue([{ id: 'unattempted', kind: 'quoted', payload: '1' }])
  const request = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['quoted'] }], limit: 2, isIdle: true }
  for (const { id, token } of (await store.claim(request)).tasks)
    await store.settle([{ id, token, outcome: id === 'unattempted' ? { type: 'succeeded' } : { type: 'released' } }])

  // Workers die. One task is lost twice, and somebody has decided on it; nobody has decided on the other.
  const dying = { worker: 'dying', leaseMs: 10, rooms: [{ kinds: ['quoted', 'paused'] }], limit: 2, isIdle: true }
  for (const rescued of [2, 1]) {
    expect((await store.claim(dying)).tasks).toHaveLength(rescued)
    await clock.advance(20)
    expect(await store.heartbeat({ worker: 'w', leaseMs: 60_000 })).toMatchObject({ rescued })
    await settleNext(store, 'quoted', [retry], failure)
    dying.rooms = [{ kinds: ['quoted'] }]
  }
  await store.groups.mark('1-aa', { state: 'fixed', release: '1.8 🚀' }, { who: 'ada', why: WEIRD })
  await store.groups.addRule({ kind: 'quoted', pattern: 'a * b' }, { who: 'ada', why: WEIRD })
  await store.groups.addRule({ pattern: '🚀 {*}' }, { who: 'ada' })
  await store.groups.mark('lost:quoted', { state: 'ignored', until: { count: 3 } }, { who: 'ada' })
  const waiting = (await store.list({ kind: 'tenants', status: 'waiting', key: 'b' }, { limit: 1 })).items
  await store.cancel(waiting.map(({ id }) => id))
  await store.leave('w')

  await useOperation(store)
  await useRuns(store)

  await store.audit.append([JSON.stringify({ WEIRD }), '{}', '{"n":3}'])
  const keyRequest = { fingerprint: 'f'.repeat(64), leaseMs: 60_000 }
  const key = await store.idempotency.claim('done', keyRequest)
  if (key.state === 'fresh') await store.idempotency.complete('done', key.token, '{"v":1}')
  await store.idempotency.claim('in progress 🚀', keyRequest)
  return store
}

/** An operation with a driver, that has moved a dead letter, which failed again and waits. */
async function useOperation(store: Movable): Promise<void> {
  await store.enqueue([{ id: 'moved', kind: 'moved', payload: '{"n":1}' }])
  const failure = { verdict: { class: 'final', code: WEIRD }, error: WEIRD }
  await settleNext(store, 'moved', [{ type: 'dead', reason: 'final_error' }], failure)
  await store.edit('moved', '{"n":2}', { who: 'ada', why: WEIRD })
  const by = { who: 'ada', why: WEIRD }
  const { id, progress } = await store.operations.create({ act: 'redrive', set: { ids: ['moved'] }, by })
  const { token = '' } = (await store.operations.take(id, 'driver', 1000)) ?? {}
  await store.operations.step(id, token, { leaseMs: 1000, move: ['moved'], status: 'running', progress })
  await settleNext(store, 'moved', [{ type: 'retry', delayMs: 60_000, isBackoff: true }], failure)
}

/** A run with ids and outputs of its own that has ended, and one that is stopped with items left. */
async function useRuns(store: Movable): Promise<void> {
  const settings = {
    failureBudget: 0.5,
    stageBudgets: { call: 0.5 },
    checkInterval: 2,
    budgetWindow: 100,
    completedFrom: 0.95,
    partialFrom: 0.5,
    maxUnfinished: 10,
    concurrency: {},
  }
  const run = { pipeline: 'p', version: 'v 🚀', stages: ['fetch', 'call'], settings, hasOutput: true }
  const take = async (id: string, count: number) => {
    const items = Array.from({ length: count }, (_, index) => ({ id: `🚀${9 - index}`, payload: '1' }))
    await store.runs.take(id, { reader: 'r', leaseMs: 1000, position: 0, items, cursor: '{"at":1}', isEnd: true })
  }
  await store.runs.open({
    ...run,
    id: 'ended',
    hasOwnIds: true,
    about: '"é"',
    onEnd: { kind: 'mail', payload: '"🚀"' },
  })
  await take('ended', 2)
  await settleNext(store, 'pipeline:p', [
    { type: 'succeeded', result: '1' },
    { type: 'dead', reason: 'final_error' },
  ])
  await store.runs.check('ended')
  await store.runs.open({ ...run, id: 'stopped' })
  await take('stopped', 3)
  const dead: Outcome = { type: 'dead', reason: 'final_error' }
  await settleNext(store, 'pipeline:p', [dead, dead], { verdict: { class: 'final', code: WEIRD } })
  await store.runs.check('stopped')
}

/** Everything that a store holds, by section. */
async function contents(store: Movable): Promise<Record<Section, readonly MovedRow[]>> {
  const all = {} as Record<Section, readonly MovedRow[]>
  for (const section of Object.keys(SECTIONS) as Section[]) {
    const rows: MovedRow[] = []
    // In pages of two, so that the places between them matter.
    for (let after: string | undefined; ; ) {
      const page = await store.exportPage(section, { limit: 2, after })
      rows.push(...page.items)
      after = page.next
      if (after === undefined) break
    }
    all[section] = rows
  }
  return all
}

/** The visible contents of a store. */
async function seen(store: Movable) {
  const tasks = [...(await store.list({}, { limit: 1000 })).items].sort((a, b) => (a.id < b.id ? -1 : 1))
  const ledgers = await Promise.all(tasks.map(({ id }) => store.ledger(id)))
  const { items: audit } = await store.audit.page({ limit: 100 })
  const { items: runs } = await store.runs.list({}, { limit: 100 })
  const pages = await Promise.all(runs.map(({ id }) => store.runs.items(id, { limit: 100 })))
  const outputs = await Promise.all(runs.map(({ id }) => store.runs.outputs(id, 100)))
  const lanes = await store.lanes()
  const { items: groups } = await store.groups.list({}, { limit: 100 })
  return { tasks, ledgers, audit, runs, pages, outputs, lanes, groups, counts: await store.count({}) }
}

/** Lets a worker run until nothing is left to run, with every outcome a success. */
async function drain(store: Movable): Promise<void> {
  for (const kind of KINDS) await store.pause({ kind }, { isPaused: false })
  // Its failure budget stopped it, which the pauses of its kind do not end.
  await store.runs.change('stopped', { isPaused: false })
  const tasks = KINDS.map(kind => defineTask(kind, { handler: () => 'drained' }))
  const worker = new Worker(store, { tasks, clock, lease: '2d' })
  await worker.start()
  for (let turn = 0; turn < 200 && (await store.count({ status: 'waiting' })).waiting > 0; turn++) {
    await clock.advance('10m')
    await new Promise(resolve => setTimeout(resolve, 20))
  }
  const stopping = worker.stop()
  await clock.advance(0)
  await stopping
}

describe('a move', () => {
  it.each([
    ['sqlite', 'postgres'],
    ['postgres', 'sqlite'],
    ['sqlite', 'sqlite'],
    ['postgres', 'postgres'],
  ] as const)('from %s to %s brings everything, to the byte, and leaves the source as it was', async (from, to) => {
    const source = await wellUsed(from)
    const [before, shown] = [await contents(source), await seen(source)]
    const target = await empty(to)
    const { sections, isStopped } = await moveStore(source, target)

    expect(isStopped).toBe(false)
    expect(await contents(target)).toEqual(before)
    expect(await seen(target)).toEqual(shown)
    expect(await contents(source)).toEqual(before)
    for (const { section, checksum, ...counts } of sections) {
      const all = before[section].length
      expect(all, `how many in the section ${section}`).toBeGreaterThan(0)
      expect({ section, ...counts }).toEqual({ section, source: all, before: 0, moved: all })
      expect(checksum).toMatch(/^[0-9a-f]{64}$/)
    }
    await checkInvariants(target)
  })

  it('there and back again ends with what it began with', async () => {
    const source = await wellUsed('sqlite')
    const [there, back] = [await empty('postgres'), await empty('sqlite')]
    const out = await moveStore(source, there)
    const home = await moveStore(there, back)
    expect(home).toEqual(out)
    expect(await contents(back)).toEqual(await contents(source))
  })

  it('brings shared limits, with their lanes and what was learned about them', async () => {
    const source = await empty('sqlite')
    const rates = { tokens: { perSecond: 0.001, burst: 9 } }
    await source.limit({ kind: 'quota' }, { isShared: true, concurrency: 50, rates })
    const task = { kind: 'quota', category: 'llm', payload: '1', cost: { tokens: 7 } }
    await source.enqueue([task, task])
    await settleNext(source, 'quota', [{ type: 'deferred', delayMs: 60_000 }])
    const [there, back] = [await empty('postgres'), await empty('sqlite')]
    await moveStore(source, there)
    await moveStore(there, back)
    const lanes = await source.lanes()
    expect(lanes[0]).toMatchObject({ shared: { limits: { rates }, pace: expect.any(Number) } })
    for (const store of [there, back]) {
      expect(await store.lanes()).toEqual(lanes)
      const request = { worker: 'w', leaseMs: 1000, rooms: [{ kinds: ['quota'] }], limit: 9, isIdle: true }
      const { tasks, now, nextAt = now } = await store.claim(request)
      expect([tasks.length, nextAt > now]).toEqual([0, true])
    }
  })

  it.each(ENGINES)('brings batches from %s with their tasks: an open one ends at the target', async engine => {
    const source = await empty(engine)
    const tasks = [0, 1].map(n => ({ kind: 'mail', payload: `${n}` }))
    await source.batches.fill('b', { position: 0, tasks, isEnd: true, onEnd: { kind: 'report', payload: 'null' } })
    await settleNext(source, 'mail', [{ type: 'succeeded' }])
    const target = await empty(engine === 'sqlite' ? 'postgres' : 'sqlite')
    await moveStore(source, target)
    expect(await target.batches.get('b')).toEqual(await source.batches.get('b'))
    await settleNext(target, 'mail', [{ type: 'succeeded' }])
    await target.batches.check('b')
    expect((await target.get('batch-end:b:1'))?.payload).toContain('"succeeded":2')
  })

  it('brings quotas, with their lanes and their holds', async () => {
    const source = await empty('sqlite')
    await source.limit({ kind: 'sync' }, { isShared: true, isPerQuota: true, concurrency: 2 })
    await source.limit({ kind: 'sync' }, { isOrdered: true })
    const task = (key: string, quota: string) => ({ kind: 'sync', key, quota, payload: '1' })
    await source.enqueue([task('r1', 'acme'), task('r1', 'acme')])
    await settleNext(source, 'sync', [{ type: 'deferred', delayMs: 60_000 }])
    await source.enqueue([task('r2', 'acme'), task('r3', 'other')])
    const [there, back] = [await empty('postgres'), await empty('sqlite')]
    await moveStore(source, there)
    await moveStore(there, back)
    const lanes = await source.lanes()
    expect(lanes.map(({ shared }) => shared?.quota)).toEqual(['acme', 'acme', 'other'])
    for (const store of [there, back]) {
      expect(await store.lanes()).toEqual(lanes)
      const request = { worker: 'w', leaseMs: 1000, rooms: [{ kinds: ['sync'] }], limit: 9, isIdle: true }
      const { tasks, now, nextAt = now } = await store.claim(request)
      expect([tasks.map(({ key }) => key), nextAt > now]).toEqual([['r3'], true])
      await store.enqueue([task('r4', 'acme'), task('r5', 'new')])
      const [held, fresh] = [await store.lanes({ key: 'r4' }), await store.lanes({ key: 'r5' })]
      expect(held[0]?.heldUntil).toBe(lanes[1]?.heldUntil)
      expect(fresh[0]?.shared).toMatchObject({ limits: { concurrency: 2 }, quota: 'new' })
    }
  })

  it.each([
    ['sqlite', 'postgres'],
    ['postgres', 'sqlite'],
  ] as const)('brings budgets, with their gates, from %s to %s and back', async (from, to) => {
    const source = await empty(from)
    await source.budgets.set({ kind: 'mail' }, { failures: { share: 0.5, minAttempts: 1 } })
    await source.enqueue(['a', 'b', 'c'].map(id => ({ id, kind: 'mail', payload: '{}' })))
    const verdict = { class: 'retryable', code: 'http_503 \0' } as const
    await settleNext(source, 'mail', [{ type: 'retry', delayMs: 0, isBackoff: true }], { verdict })
    const [there, back] = [await empty(to), await empty(from)]
    await moveStore(source, there)
    await moveStore(there, back)
    for (const store of [source, there, back]) {
      const [budget] = await store.budgets.list()
      expect(budget?.gate).toMatchObject({ state: 'open', cause: { code: 'http_503 \ufffd', attempts: 1, failed: 1 } })
      const request = { worker: 'w', leaseMs: 1000, rooms: [{ kinds: ['mail'] }], limit: 9, isIdle: true }
      expect((await store.claim(request)).tasks).toHaveLength(0)
    }
    await clock.advance(30_000)
    for (const store of [there, back]) await settleNext(store, 'mail', [{ type: 'succeeded' }])
  })

  it('covers every state, outcome and sort of lane that it should', async () => {
    const { task: tasks, lane } = await contents(await wellUsed('sqlite'))
    expect(new Set(tasks.map(({ state }) => state))).toEqual(new Set([0, 1, 2, 4, 5, 6, 7]))
    const outcomes = tasks.flatMap(({ ledger }) => (ledger as MovedRow[]).map(({ outcome }) => outcome))
    expect(new Set(outcomes)).toEqual(
      new Set(['succeeded', 'skipped', 'retry', 'deferred', 'later', 'dead', 'lost', 'redriven', 'edited']),
    )
    expect(tasks.filter(({ undecided }) => undecided === 1)).toHaveLength(1)
    expect(lane.some(({ paused }) => paused === 1)).toBe(true)
    expect(lane.some(({ ordered }) => ordered === 1)).toBe(true)
    expect(lane.some(({ ramp, held_until }) => ramp === 1 && Number(held_until) > 0)).toBe(true)
    expect(lane.some(({ concurrency, per_second }) => concurrency === 3 && per_second === 0.3)).toBe(true)
  })

  it.each(ENGINES)(
    'to %s leaves a store that works: a worker drains it, and new records come after the old',
    async to => {
      const target = await empty(to)
      await moveStore(await wellUsed(to === 'sqlite' ? 'postgres' : 'sqlite'), target)
      await target.audit.append(['"new"'])
      expect((await target.audit.page({ limit: 100 })).items.at(-1)).toBe('"new"')
      expect(await target.idempotency.claim('done', { fingerprint: 'f'.repeat(64), leaseMs: 1 })).toMatchObject({
        state: 'done',
        result: '{"v":1}',
      })
      expect(await target.lanes({ kind: 'blocked' })).toMatchObject([{ key: 'a', blockedBy: 'letter' }])
      await target.redrive(['letter'], { who: 'ada' })
      await target.pause({ kind: 'paused', category: 'late' }, { isPaused: false })
      await target.enqueue([{ id: 'new', kind: 'paused', category: 'late', payload: '{}' }])
      expect((await target.lanes({ category: 'late' }))[0]).toMatchObject({ isPaused: false })
      await target.limit({ kind: 'tenants', category: 'late' }, {})
      await target.limit({ kind: 'new' }, { isShared: true })
      await target.enqueue([{ id: 'newer', kind: 'tenants', category: 'late', key: 'later', payload: '{}' }])
      expect((await target.lanes({ kind: 'tenants', category: 'late' }))[0]).toMatchObject({ limits: {} })

      const { dead, cancelled } = await target.count({})
      await drain(target)
      expect(await target.count({})).toMatchObject({ waiting: 0, running: 0, dead, cancelled })
      await checkInvariants(target)
    },
  )

  it('takes back what dead workers left, and refuses while somebody is at work', async () => {
    const [source, target] = [await empty('sqlite'), await empty('sqlite')]
    await source.enqueue([{ id: 'x', kind: 'mail', payload: '{}' }])
    await source.claim({ worker: 'w', leaseMs: 1000, rooms: [{ kinds: ['mail'] }], limit: 1, isIdle: true })
    await expect(moveStore(source, target)).rejects.toThrow(/one of its tasks is running. Stop its workers/)
    expect((await contents(target)).task).toEqual([])

    await clock.advance(1000)
    await moveStore(source, target)
    expect(await target.ledger('x')).toMatchObject([{ outcome: 'lost', worker: 'w' }])
    expect((await contents(target)).task).toMatchObject([{ undecided: 1, losses: 1 }])
  })

  it.each([
    ['a task', (store: Movable) => store.enqueue([{ id: 'mine', kind: 'k', payload: '{}' }])],
    ['an audit record', (store: Movable) => store.audit.append(['{}', '{}', '{}', '{}'])],
    ['a policy', (store: Movable) => store.policies.keep('mine', '{}')],
    ['a key', (store: Movable) => store.idempotency.claim('mine', { fingerprint: 'f', leaseMs: 1 })],
    ['a pause rule', (store: Movable) => store.pause({ kind: 'mine' }, { isPaused: true })],
    ['a limit rule', (store: Movable) => store.limit({ kind: 'mine' }, { concurrency: 1 })],
    ['a shared limit', (store: Movable) => store.limit({ kind: 'mine' }, { isShared: true })],
    ['a lane', (store: Movable) => store.limit({ kind: 'mine', category: '', key: '' }, { concurrency: 1 })],
  ])('refuses a target that holds %s of its own, and writes nothing', async (_, own) => {
    const [source, target] = [await wellUsed('sqlite'), await empty('postgres')]
    await own(target)
    const before = await contents(target)
    await expect(moveStore(source, target)).rejects.toThrow(MoveRefusedError)
    await expect(planMove(source, target)).rejects.toThrow(MoveRefusedError)
    expect(await contents(target)).toEqual(before)
  })

  it('refuses a target on which somebody has worked since', async () => {
    const [source, target] = [await wellUsed('sqlite'), await empty('sqlite')]
    await moveStore(source, target)
    await target.cancel(['later'])
    await expect(moveStore(source, target)).rejects.toThrow(
      "the task 'later' differs between the two. Stores cannot be merged",
    )
  })

  it('refuses to go on when a worker starts on the source meanwhile, and moves no running task', async () => {
    const [source, target] = [await wellUsed('sqlite'), await empty('postgres')]
    const claim = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['mail'] }], limit: 1, isIdle: true }
    const meddle = ({ step, section }: MoveProgress) => {
      if (step === 'comparing' && section === 'audit') void source.claim(claim)
    }
    await expect(moveStore(source, target, { onProgress: meddle })).rejects.toThrow(/a worker has started/)
    expect((await contents(target)).task).toEqual([])
  })

  it('goes on with what was enqueued at the source since, wherever its id is in the order', async () => {
    const [source, target] = [await wellUsed('sqlite'), await empty('postgres')]
    await moveStore(source, target)
    await source.enqueue(['\uffef', '🚀🚀'].map(end => ({ id: `mail-${end}`, kind: 'new', payload: '{}' })))
    const { sections } = await moveStore(source, target)
    expect(sections.map(({ section, moved }) => `${section} ${moved}`)).toEqual(
      expect.arrayContaining(['pause 0', 'lane 1', 'task 2', 'audit 0']),
    )
    expect(await contents(target)).toEqual(await contents(source))
  })

  it('says which is not the same if something was written meanwhile', async () => {
    const [source, target] = [await wellUsed('sqlite'), await empty('postgres')]
    const meddle = ({ step, section }: MoveProgress) => {
      if (step === 'verifying' && section === 'pause') void source.cancel(['later'])
    }
    const error = await moveStore(source, target, { onProgress: meddle }).catch(error => error)
    expect(error).toBeInstanceOf(MoveDifferenceError)
    expect(error.message).toContain("the task 'later' differs between the two")
  })

  it('names what PostgreSQL cannot store', async () => {
    const [source, target] = [await empty('sqlite'), await empty('postgres')]
    await source.audit.append(['x\0y'])
    const error = await moveStore(source, target).catch(error => error)
    expect(error).toBeInstanceOf(OptionError)
    expect(error.message).toContain(
      String.raw`'record' has a character that PostgreSQL cannot store, so it stays: 'x\x00y'`,
    )
  })

  it('makes of half a pair of surrogates, which SQLite cannot hold, what any reader would', async () => {
    const [source, target] = [await empty('postgres'), await empty('sqlite')]
    await source.enqueue([{ id: 'x', kind: 'k', payload: '{}' }])
    await settleNext(source, 'k', [{ type: 'dead', reason: 'final_error' }], {
      verdict: { class: 'final', code: 'E' },
      error: 'cut \ud83d',
    })
    await moveStore(source, target)
    expect(await target.get('x')).toMatchObject({ errorMessage: 'cut \ufffd' })
  })
})

describe('a move that is stopped', () => {
  it('says what it has moved, and the same call goes on with the rest', async () => {
    const [source, target] = [await wellUsed('sqlite'), await empty('postgres')]
    await source.enqueue(Array.from({ length: 500 }, (_, n) => ({ id: `n${n}`, kind: 'mail', payload: `${n}` })))
    const stop = new AbortController()
    const onProgress = ({ step, section, done }: MoveProgress) => {
      if (step === 'moving' && section === 'task' && done >= 200) stop.abort()
    }
    const first = await moveStore(source, target, { onProgress, signal: stop.signal })
    expect(first.isStopped).toBe(true)
    const { moved = 0, source: total = 0 } = first.sections.find(({ section }) => section === 'task') ?? {}
    expect(moved).toBe(200)
    expect(total).toBeGreaterThan(500)

    const rest = await moveStore(source, target)
    expect(rest.isStopped).toBe(false)
    expect(rest.sections.find(({ section }) => section === 'task')).toMatchObject({ before: 200, moved: total - 200 })
    expect(rest.sections.find(({ section }) => section === 'lane')).toMatchObject({ moved: 0 })
    expect(await contents(target)).toEqual(await contents(source))
    await checkInvariants(target)
  })
})

describe('what is moved', () => {
  /** Columns that are not moved: local to a database or to a running task, or derived. */
  const NOT_MOVED: Record<string, readonly string[]> = {
    lane: [
      ...['id', 'shared', 'last_place', 'waiting', 'running', 'succeeded', 'skipped', 'dead', 'cancelled'],
      // Of a lane that PostgreSQL is about to forget.
      ...['retired', 'retired_by'],
    ],
    // Bounds the lease where a clock may have been wrong, which is SQLite's.
    idempotency: ['lease_ms'],
    task: [
      ...['seq', 'lane', 'round', 'cancel_requested', 'claim', 'advances'],
      // Of the attempt that it succeeded with, which is a row of its ledger.
      ...['worker', 'ran_from', 'ran_to', 'ran_attempt', 'version', 'call', 'release'],
      // That of its lane, if its state tells that it is under one.
      'budget',
      // The id of its lane: whether it blocks that is moved.
      'blocks',
      // The same as others.
      ...['failure_state', 'failure_at'],
    ],
    ledger: ['task'],
    // The end of its hold, or noted with the next claim.
    shared_limit: ['opens_at'],
    // Counts are of the last minutes, and begin afresh.
    budget: ['counts', 'retries', 'spent', 'is_open', 'has_retries', 'has_costs'],
  }
  const MOVED = [
    ...Object.values(SECTIONS).map(({ table, columns }) => [table, columns] as const),
    ['ledger', ENTRY_COLUMNS] as const,
  ]

  it.each(MOVED)('is every column of the table %s in both databases', async (table, columns) => {
    await empty('sqlite')
    const db = new Database(join(folder, `${count}.db`), { readonly: true })
    const inSqlite = db.prepare<[string], string>('SELECT name FROM pragma_table_info(?)').pluck().all(table)
    db.close()
    await empty('postgres')
    const { rows } = await pool.query(
      'SELECT column_name AS name FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2',
      [`move_${count}`, table],
    )
    const isMoved = (name: string) => !NOT_MOVED[table]?.includes(name)
    expect(inSqlite.filter(isMoved).sort()).toEqual([...columns].sort())
    expect(
      rows
        .map(({ name }) => name as string)
        .filter(isMoved)
        .sort(),
    ).toEqual([...columns].sort())
  })

  it('has a checksum that does not depend on the order, and changes with any value', async () => {
    const source = await empty('sqlite')
    await source.policies.keep('a', '1')
    await source.policies.keep('b', '2')
    const { sections } = await moveStore(source, await empty('postgres'))
    const sum = [
      { hash: 'b', policy: '2' },
      { hash: 'a', policy: '1' },
    ]
      .map(row => BigInt(`0x${hashJson(row)}`))
      .reduce((a, b) => (a + b) % 2n ** 256n)
    expect(sections.find(({ section }) => section === 'policy')?.checksum).toBe(sum.toString(16).padStart(64, '0'))
  })
})
