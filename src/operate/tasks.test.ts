import { describe, expect, it } from 'vitest'
import { deadLetters } from '../../test/dead-letters.js'
import { type Duration, FinalError, type GiveUpReason, RateLimitedError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'

import { defineTask, TaskQueue, Worker } from '../task/index.js'
import { fakeClock } from '../testing/index.js'
import { cancelTasks, explainTask, listTasks, planRedrive, redriveDeadLetters } from './index.js'

const charge = defineTask('charge', {
  policy: { attempts: 3, backoff: { base: '10s' } },
  handler: (failure: string) => {
    if (failure === 'final') throw new FinalError('card expired')
    if (failure === 'limited') throw new RateLimitedError('slow down', { retryAfterMs: 5000 })
    if (failure === 'down') throw Object.assign(new Error('Bad gateway'), { status: 502 })
    return { charged: true }
  },
})

/** A store after a worker has run these tasks for an hour: each id with the failure that its handler throws. */
async function runTasks(tasks: Readonly<Record<string, string>>, ranFor: Duration = '1h') {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store)
  for (const [id, failure] of Object.entries(tasks)) await queue.enqueue(charge, failure, { id, key: id })
  const worker = new Worker(store, { tasks: [charge], clock })
  await worker.start()
  await clock.advance(ranFor)
  const stopping = worker.stop()
  await clock.advance('1m')
  await stopping
  return { clock, store, queue }
}

describe('listTasks', () => {
  it('gives views that JSON can hold, newest change first, page by page', async () => {
    const { store } = await runTasks({ a: 'down', b: 'none' })
    const { items, next } = await listTasks(store, {}, { limit: 1 })
    expect(items.map(({ id, status }) => [id, status])).toEqual([['a', 'dead']])
    const { items: rest, next: end } = await listTasks(store, {}, { limit: 1, after: next })
    expect([rest[0]?.id, rest[0]?.result, end]).toEqual(['b', { charged: true }, undefined])
    expect(JSON.parse(JSON.stringify(items))).toEqual(items)
    expect(items[0]).toMatchObject({
      payload: 'down',
      retryCount: 2,
      nextRetryAt: null,
      errorClass: 'retryable',
      errorCode: 'http_502',
      reason: 'attempts_exhausted',
      submittedAt: '2000-01-01T00:00:00.000Z',
      changedAt: '2000-01-01T00:00:30.000Z',
    })
  })

  it('filters', async () => {
    const { store } = await runTasks({ a: 'down', b: 'none' })
    expect((await listTasks(store, { status: 'succeeded' }, { limit: 9 })).items.map(({ id }) => id)).toEqual(['b'])
  })

  it('shows a payload that is not JSON, or too deep to be written again, as its text', async () => {
    const store = new MemoryStore()
    const deep = '['.repeat(100_000) + ']'.repeat(100_000)
    for (const payload of ['{"half":', deep]) {
      await store.enqueue([{ kind: 'k', payload }])
      const { items } = await listTasks(store, {}, { limit: 1 })
      expect(items[0]?.payload === payload).toBe(true)
      expect(() => JSON.stringify(items)).not.toThrow()
    }
  })
})

describe('explainTask', () => {
  it('gives a dead letter with its history, the cause, an advice and the number of those like it', async () => {
    const { store } = await runTasks({ a: 'down', b: 'down', c: 'final' })
    expect(await explainTask(store, 'a')).toMatchObject({
      id: 'a',
      maxAttempts: 3,
      cause: { code: 'attempts_exhausted', text: 'All 3 attempts failed.' },
      advice: { code: 'check_dependency' },
      alike: 2,
      history: [{ outcome: 'retry' }, { outcome: 'retry' }, { outcome: 'dead', delayMs: null }],
    })
    expect(await explainTask(store, 'c')).toMatchObject({
      cause: { code: 'final_error' },
      advice: { code: 'fix_error', text: expect.stringContaining('fix the cause named in the error') },
      alike: 1,
    })
  })

  it('does not say of a document that its attempts failed, since perhaps none ever began', async () => {
    const store = new MemoryStore()
    const verdict = { class: 'retryable', code: 'stuck' } as const
    const attempt = {
      attempt: 3,
      startedAt: 1,
      endedAt: 2,
      worker: 'sweeper',
      verdict,
      error: 'No attempt ended in time.',
    }
    const outcome = { type: 'dead', reason: 'attempts_exhausted' } as const
    await store.enqueue([{ id: 'd', kind: 'document:archives', payload: '{}', tried: { outcome, attempt } }])
    expect(await explainTask(store, 'd')).toMatchObject({
      cause: { code: 'attempts_exhausted', text: 'It was sent 3 times, and was not completed.' },
      advice: { code: 'check_service' },
    })
  })

  it('gives a task that is not dead no cause and no advice', async () => {
    const { store } = await runTasks({ a: 'limited' }, '1s')
    const task = await explainTask(store, 'a')
    expect(task).toMatchObject({
      status: 'waiting',
      retryCount: 0,
      cause: null,
      advice: null,
      alike: 0,
      maxAttempts: 3,
    })
    expect(task?.nextRetryAt).toBe('2000-01-01T00:00:05.000Z')
  })

  it('advises to look for a crash where workers died, and not where one died before it failed otherwise', async () => {
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    const claim = (worker: string) =>
      store.claim({ worker, leaseMs: 1000, rooms: [{ kinds: ['k'] }], limit: 1, isIdle: true })
    /** A task whose worker died, and that was then given up for this reason. */
    const dies = async (id: string, reason: GiveUpReason) => {
      await store.enqueue([{ id, kind: 'k', payload: '0' }])
      await claim(`${id}-1`)
      await clock.advance('1h')
      await store.heartbeat({ worker: 'other', leaseMs: 1000 })
      const { tasks } = await claim(`${id}-2`)
      await store.settle(tasks.map(task => ({ id, token: task.token, outcome: { type: 'dead', reason } })))
      return explainTask(store, id)
    }
    expect(await dies('killer', 'losses_exhausted')).toMatchObject({
      losses: 1,
      cause: { code: 'losses_exhausted', text: 'Its worker died.' },
      advice: { code: 'investigate_crash' },
    })
    expect(await dies('unlucky', 'final_error')).toMatchObject({ losses: 1, advice: { code: 'fix_error' } })
  })

  it.each<[string, string, string | undefined, string]>([
    ['a plain error of own code', 'unknown', 'at pick (src/order.ts:12:9)\nat handler (tasks.ts:3:1)', 'fix_code'],
    ['one that a built-in threw', 'unknown', 'at JSON.parse (<anonymous>)\nat src/order.ts:12:9', 'fix_code'],
    [
      'one that a package threw',
      'unknown',
      'at send (node_modules/mailer/a.js:1:1)\nat src/order.ts:12:9',
      'check_dependency',
    ],
    ['one without a stack', 'unknown', undefined, 'check_dependency'],
    ['an answer of a service', 'http_502', 'at pick (src/order.ts:12:9)', 'check_dependency'],
  ])('advises where to fix the code, or to check the service: %s', async (_, code, stack, advice) => {
    const store = new MemoryStore()
    await deadLetters(store, [{ id: 'a', code, stack }])
    const letter = await explainTask(store, 'a')
    expect(letter?.advice?.code).toBe(advice)
    expect(letter?.advice?.text.includes('Fix the code there')).toBe(advice === 'fix_code')
    expect(letter?.advice?.text.includes('failed at src/order.ts:12:9,')).toBe(advice === 'fix_code')
  })

  it('resolves with undefined for an unknown task', async () => {
    expect(await explainTask(new MemoryStore(), 'x')).toBeUndefined()
  })
})

describe('planRedrive', () => {
  it('counts, samples, and moves nothing', async () => {
    const { store } = await runTasks({ a: 'down', b: 'down', c: 'final', d: 'none' })
    const plan = await planRedrive(store, { filter: { errorCode: 'http_502' } }, { sampleSize: 1 })
    expect(plan).toMatchObject({ count: 2, sample: [{ status: 'dead', errorCode: 'http_502' }], refused: [] })
    expect((await planRedrive(store, { all: true })).sample).toHaveLength(3)
    expect(await store.count({})).toMatchObject({ dead: 3 })
  })

  it('refuses those named that are not dead or not there, and says why', async () => {
    const { store } = await runTasks({ a: 'down', b: 'none' })
    const { count, sample, refused } = await planRedrive(store, { ids: ['a', 'b', 'a', 'c'] })
    expect([count, sample.map(({ id }) => id)]).toEqual([1, ['a']])
    expect(refused).toEqual([
      { id: 'b', code: 'not_dead', text: "'b' is not dead: it has succeeded." },
      { id: 'c', code: 'not_found', text: "'c' is not in the store." },
    ])
  })

  it('counts as many as a redrive then moves, over more than one page', async () => {
    const store = new MemoryStore()
    await store.enqueue(Array.from({ length: 1203 }, (_, n) => ({ id: `t${n}`, kind: 'k', payload: '0' })))
    const { tasks } = await store.claim({
      worker: 'w',
      leaseMs: 1000,
      rooms: [{ kinds: ['k'] }],
      limit: 2000,
      isIdle: true,
    })
    const outcome = { type: 'dead', reason: 'final_error' } as const
    await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome })))
    await store.leave('w')
    const { count, sample } = await planRedrive(store, { all: true }, { sampleSize: Infinity })
    expect([count, new Set(sample.map(({ id }) => id)).size]).toEqual([1203, 1203])
    expect((await redriveDeadLetters(store, { all: true }, { who: 'ada' })).moved).toBe(1203)
  })

  it('refuses an empty filter', async () => {
    await expect(planRedrive(new MemoryStore(), { filter: {} })).rejects.toThrow('The filter is empty')
  })
})

describe('cancelTasks', () => {
  it('refuses an id in place of a list of ids, whose letters would be ids', async () => {
    const cancelling = cancelTasks(new MemoryStore(), 'abc' as never, { who: 'ada' })
    await expect(cancelling).rejects.toThrow("'ids' must be a list, got 'abc'.")
  })

  it('cancels what waits, refuses what has ended or is not there, and is on record', async () => {
    const { store, queue } = await runTasks({ a: 'none' })
    await queue.enqueue(charge, 'none', { id: 'b' })
    expect(await cancelTasks(store, ['a', 'b', 'b', 'c'], { who: 'ada', why: 'a mistake' })).toEqual({
      ids: ['b'],
      refused: [
        { id: 'a', code: 'already_ended', text: "'a' has ended already: it has succeeded." },
        { id: 'c', code: 'not_found', text: "'c' is not in the store." },
      ],
    })
    expect(await store.get('b')).toMatchObject({ status: 'cancelled' })
    const { items } = await store.audit.page({ limit: 10 })
    expect(items.map(record => JSON.parse(record))).toMatchObject([{ who: 'ada', why: 'a mistake' }])
  })
})
