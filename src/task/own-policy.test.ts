import { describe, expect, it } from 'vitest'
import { explainTask, verify, why } from '../operate/index.js'
import { MemoryStore } from '../store/internal.js'
import { fakeClock } from '../testing/index.js'
import { declareTask, defineTask, type EnqueueOptions, TaskQueue, Worker } from './index.js'

const FAILS = () => {
  throw new Error('down')
}
const flaky = defineTask('flaky', {
  policy: { attempts: 2, backoff: { kind: 'fixed', base: '1s' }, jitter: 'none', timeout: '10s' },
  policyMax: { attempts: 6, backoff: '1m', timeout: '1m', ttl: '1h' },
  handler: FAILS,
})

async function bench() {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store)
  const worker = new Worker(store, { tasks: [flaky], clock })
  return { clock, store, queue, worker }
}

describe('a task with a policy of its own', () => {
  it('is decided on under the policy of its kind with its own fields laid over it', async () => {
    const { clock, store, queue, worker } = await bench()
    const own: EnqueueOptions['policy'] = { attempts: 3, backoff: { kind: 'list', delays: ['5s', '7s'] } }
    const { id } = await queue.enqueue(flaky, null, { policy: own })
    const [, plain] = await queue.enqueueMany(flaky, [
      { payload: 1, policy: { attempts: 1 } },
      { payload: 2, id: 'plain' },
    ])
    expect(plain?.id).toBe('plain')
    await worker.start()
    await clock.advance(60_000)
    const rows = async (task: string) => (await store.ledger(task)).map(({ outcome, delayMs }) => [outcome, delayMs])
    expect(await rows(id)).toEqual([
      ['retry', 5000],
      ['retry', 7000],
      ['dead', undefined],
    ])
    expect(await rows('plain')).toEqual([
      ['retry', 1000],
      ['dead', undefined],
    ])
    expect((await store.count({})).dead).toBe(3)
    expect(await verify(store)).toMatchObject({ decisions: 6, unknown: 0, discrepancies: [] })
    expect(await explainTask(store, id)).toMatchObject({
      maxAttempts: 3,
      policy: { attempts: 3, backoff: { kind: 'list', delays: [5000, 7000] } },
    })
    expect((await why(store, id))?.causes[0]?.facts).toMatchObject({ maxAttempts: 3 })
  })

  it('keeps it when it is redriven', async () => {
    const { clock, store, queue, worker } = await bench()
    const { id } = await queue.enqueue(flaky, null, { policy: { attempts: 1 } })
    await worker.start()
    await clock.advance(0)
    await queue.redrive(id, { who: 'ann' })
    await clock.advance(60_000)
    expect((await store.ledger(id)).map(({ outcome }) => outcome)).toEqual(['dead', 'redriven', 'dead'])
  })

  it('has a timeout of its own', async () => {
    const { clock, store, queue } = await bench()
    const slow = defineTask('slow', {
      policy: { attempts: 1, timeout: '10s' },
      policyMax: { timeout: '1m' },
      handler: (_: unknown, { signal }) =>
        new Promise<void>(resolve => signal.addEventListener('abort', () => resolve())),
    })
    await new Worker(store, { tasks: [slow], clock }).start()
    const { id } = await queue.enqueue(slow, null, { policy: { timeout: '30s' } })
    await clock.advance(29_000)
    expect((await store.get(id))?.status).toBe('running')
    await clock.advance(2000)
    expect(await store.get(id)).toMatchObject({ status: 'dead', errorCode: 'timeout' })
  })

  it('is given up by its own time to live, also while no worker runs its kind', async () => {
    const { clock, store, queue, worker } = await bench()
    const kind = defineTask('mortal', { policyMax: { ttl: '1h' }, handler: () => {} })
    const gone = new Worker(store, { tasks: [kind], clock })
    await gone.start()
    await gone.stop()
    await worker.start()
    await queue.enqueue(kind, null, { id: 'short', policy: { ttl: '10m' } })
    await queue.enqueue(kind, null, { id: 'long' })
    expect((await why(store, 'short'))?.answer).toMatch(/Its time to live ends at/)
    await clock.advance(15 * 60_000)
    expect(await store.get('short')).toMatchObject({ status: 'dead', reason: 'ttl_expired' })
    expect(await store.get('long')).toMatchObject({ status: 'waiting' })
  })

  it('starts once the store has the policy, however long that takes', async () => {
    const { clock, store, queue, worker } = await bench()
    await worker.start()
    const { keep } = store.policies
    let failures = 3
    Object.assign(store.policies, {
      keep: (...args: Parameters<typeof keep>) => {
        if (failures-- > 0) return Promise.reject(Object.assign(new Error('away'), { code: 'ECONNREFUSED' }))
        return keep(...args)
      },
    })
    const { id } = await queue.enqueue(flaky, null, { policy: { attempts: 1 } })
    await clock.advance(60_000)
    expect(failures).toBeLessThan(0)
    expect(await store.get(id)).toMatchObject({ status: 'dead' })
    expect(await verify(store)).toMatchObject({ decisions: 1, unknown: 0 })
  })
})

describe('a policy that the kind does not allow is refused, and nothing is enqueued', () => {
  const rigid = declareTask<null>('rigid')
  const cases: [string, EnqueueOptions['policy'], string][] = [
    ['too many attempts', { attempts: 7 }, "'policy.attempts' may be 6 at most for the kind 'flaky', got 7."],
    [
      'too long a delay',
      { backoff: { kind: 'fixed', base: '2m' } },
      "The longest delay of 'policy.backoff' may be 1m at most for the kind 'flaky', got 2m.",
    ],
    ['too long a list', { backoff: [1, '61s'] }, "The longest delay of 'policy.backoff' may be 1m at most"],
    ['too long a timeout', { timeout: '61s' }, "'policy.timeout' may be 1m at most for the kind 'flaky', got 1m 1s."],
    ['too long a time to live', { ttl: '2h' }, "'policy.ttl' may be 1h at most for the kind 'flaky', got 2h."],
    ['a field of another sort', { jitter: 'none' } as EnqueueOptions['policy'], "takes no 'jitter'"],
    ['an invalid value', { attempts: 0 }, "Invalid policy: 'attempts' must be"],
    ['null', null as never, "'policy' must be an object; got null."],
    ['a list', [] as never, "'policy' must be an object; got a list."],
  ]
  it.each(cases)('%s', async (_, policy, message) => {
    const { store, queue } = await bench()
    await expect(queue.enqueue(flaky, null, { policy })).rejects.toThrow(message)
    await expect(queue.enqueueMany(flaky, [{ payload: null }, { payload: null, policy }])).rejects.toThrow(message)
    expect((await store.count({})).waiting).toBe(0)
  })

  it('any of a kind that allows none', async () => {
    const { queue } = await bench()
    const message = "A task of the kind 'rigid' takes no 'attempts' of its own. Set 'policyMax.attempts'"
    await expect(queue.enqueue(rigid, null, { policy: { attempts: 1 } })).rejects.toThrow(message)
  })

  it('and so is a kind whose maxima cannot be read', () => {
    expect(() => declareTask('k', { policyMax: { attempts: 0 } })).toThrow(
      "'policyMax.attempts' of the task 'k' must be",
    )
    expect(() => declareTask('k', { policyMax: JSON.parse('{"backoff":"x"}') })).toThrow("'policyMax.backoff' must be")
    expect(() => declareTask('k', { policyMax: JSON.parse('{"jitter":1}') })).toThrow("takes no 'jitter'")
  })
})
