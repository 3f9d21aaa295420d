import { describe, expect, it, vi } from 'vitest'
import type { StepOptions } from '../engine/internal.js'
import { type Duration, FinalError, RateLimitedError } from '../policy/index.js'
import { MemoryStore, stepRecord } from '../store/internal.js'
import type { WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import {
  defineTask,
  StepError,
  StepFailedError,
  type TaskContext,
  type TaskDefinition,
  TaskQueue,
  Worker,
  type WorkerOptions,
} from './index.js'

const ONCE = { attempts: 1, jitter: 'none' } as const
/** The task's own attempts, a minute apart. */
const POLICY = { attempts: 3, backoff: ['1m'], jitter: 'none' } as const

/** A task whose handler is given, enqueued as `t`, on a clock that the test moves. */
async function scene(handler: (task: TaskContext, clock: FakeClock) => unknown, options: Partial<WorkerOptions> = {}) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const task: TaskDefinition = defineTask('signup', {
    policy: POLICY,
    handler: (_: unknown, context) => handler(context, clock),
  })
  const events: WorkEvent[] = []
  const add = (name: string) => {
    const worker = new Worker(store, { tasks: [task], clock, name, sink: event => void events.push(event), ...options })
    return worker.start().then(() => worker)
  }
  await new TaskQueue(store).enqueue(task, null, { id: 't' })
  const worker = await add('w1')
  await clock.advance(0)
  const get = async () => {
    const found = await store.get('t')
    if (found === undefined) throw new Error('There is no such task.')
    return found
  }
  const steps = async () => (await store.steps('t')).map(stepRecord)
  return { clock, store, worker, events, add, get, steps, ledger: () => store.ledger('t') }
}

/** Fails its first calls. */
function failing<T>(times: number, result: T, failure: () => Error = () => new Error('down')) {
  let calls = 0
  return vi.fn(async () => {
    if (calls++ < times) throw failure()
    return result
  })
}

describe('a step', () => {
  it('runs once, and a later attempt at its task gets its result from the record', async () => {
    const create = vi.fn(async () => ({ user: 7 }))
    const charge = failing(1, 'ch_1')
    const seen: unknown[] = []
    const { clock, get, steps } = await scene(async task => {
      const user = await task.step('create', create)
      seen.push(user)
      if (task.attempt === 1) throw new Error('between the steps')
      return [user, await task.step('charge', charge, { policy: { backoff: ['1s'] } })]
    })
    expect(await get()).toMatchObject({ status: 'waiting', attempts: 1 })
    await clock.advance('1m')
    await clock.advance('1s')
    expect(await get()).toMatchObject({ status: 'succeeded', result: '[{"user":7},"ch_1"]' })
    expect(create).toHaveBeenCalledTimes(1)
    expect(seen).toEqual([{ user: 7 }, { user: 7 }])
    expect(await steps()).toMatchObject([
      {
        name: 'create',
        isDone: true,
        result: '{"user":7}',
        ledger: [{ attempt: 1, outcome: 'succeeded', worker: 'w1' }],
      },
      {
        name: 'charge',
        isDone: true,
        ledger: [
          { outcome: 'retry', delayMs: 1000 },
          { attempt: 2, outcome: 'succeeded' },
        ],
      },
    ])
  })

  it('has a key that stays the same, its own attempt numbers, and results that JSON has passed through', async () => {
    const contexts: unknown[] = []
    const { clock, get } = await scene(async task => {
      const at = await task.step(
        'now',
        ({ key, attempt }) => {
          contexts.push([key, attempt])
          if (attempt < 3) throw new Error('not yet')
          return { text: 'x', gone: undefined }
        },
        { policy: { attempts: 3, backoff: ['2s'], jitter: 'none' } },
      )
      return [Object.keys(at), await task.step('nothing', () => {})]
    })
    await clock.advance('2s')
    await clock.advance('2s')
    expect(contexts).toEqual([
      ['t/now', 1],
      ['t/now', 2],
      ['t/now', 3],
    ])
    expect(await get()).toMatchObject({ status: 'succeeded', result: '[["text"],null]', attempts: 0 })
  })

  it('may run beside others', async () => {
    const { get, steps } = await scene(task =>
      Promise.all(['a', 'b', 'c'].map(name => task.step(name, async () => name.toUpperCase()))),
    )
    expect(await get()).toMatchObject({ status: 'succeeded', result: '["A","B","C"]' })
    expect((await steps()).map(({ name }) => name)).toEqual(['a', 'b', 'c'])
  })

  it('waits in the process for a short delay, and puts its task back to waiting for a long one', async () => {
    const call = failing(2, 'ok')
    const { clock, get, steps, ledger } = await scene(task =>
      task.step('call', call, { policy: { backoff: ['5s', '10m'], jitter: 'none' } }),
    )
    expect(await get()).toMatchObject({ status: 'running' })
    expect(await steps()).toMatchObject([{ isDone: false, attempts: 1, nextAt: clock.now() + 5000 }])
    await clock.advance('5s')
    expect(await get()).toMatchObject({
      status: 'waiting',
      attempts: 0,
      nextAttemptAt: clock.now() + 600_000,
      errorMessage: "Error: step 'call': down",
    })
    await clock.advance('10m')
    expect(await get()).toMatchObject({ status: 'succeeded', result: '"ok"', attempts: 0 })
    expect(call).toHaveBeenCalledTimes(3)
    expect(await ledger()).toMatchObject([
      { outcome: 'later', attempt: 1, delayMs: 600_000, notes: { step: 'call' }, verdict: { class: 'retryable' } },
      { outcome: 'succeeded', attempt: 1 },
    ])
  })

  it('holds the lane of its task for a rate limit, which costs neither an attempt', async () => {
    const call = failing(1, 'ok', () => new RateLimitedError('slow down', { retryAfterMs: 2000 }))
    const { clock, store, get, steps } = await scene(task => task.step('call', call))
    expect(await get()).toMatchObject({
      status: 'waiting',
      attempts: 0,
      deferrals: 1,
      nextAttemptAt: clock.now() + 2000,
    })
    expect(await store.lanes({ kind: 'signup' })).toMatchObject([{ heldUntil: clock.now() + 2000 }])
    expect(await steps()).toMatchObject([{ attempts: 0, deferrals: 1, ledger: [{ outcome: 'deferred' }] }])
    await clock.advance('2s')
    expect(await get()).toMatchObject({ status: 'succeeded' })
  })

  it('that fails for good kills its task, which names it', async () => {
    const { get, steps, ledger, events } = await scene(async task => {
      await task.step('create', () => 1)
      await task.step('charge', () => {
        throw new FinalError('card declined', { code: 'declined' })
      })
    })
    expect(await get()).toMatchObject({
      status: 'dead',
      reason: 'final_error',
      errorCode: 'declined',
      errorMessage: "FinalError: step 'charge': card declined",
    })
    expect(await ledger()).toMatchObject([{ outcome: 'dead', notes: { step: 'charge' } }])
    expect(await steps()).toMatchObject([{ isDone: true }, { isDone: false, gaveUp: 'final_error' }])
    expect(events.map(({ type, work }) => `${work.kind} ${work.name} ${type}`)).toEqual([
      'task signup attempt_started',
      'step signup/create attempt_started',
      'step signup/create attempt_succeeded',
      'step signup/charge attempt_started',
      'step signup/charge gave_up',
      'task signup gave_up',
    ])
  })

  it('that has used up its attempts kills its task, whatever attempts the task has left', async () => {
    const call = failing(9, 0)
    const policy = { attempts: 2, backoff: ['1s'], jitter: 'none' } as const
    const { clock, get } = await scene(task => task.step('call', call, { policy }))
    await clock.advance('1s')
    expect(await get()).toMatchObject({ status: 'dead', reason: 'attempts_exhausted', attempts: 1 })
    expect(call).toHaveBeenCalledTimes(2)
  })

  it('begins anew with a redrive, behind those that are done', async () => {
    const create = vi.fn(() => 1)
    const call = failing(1, 2, () => new FinalError('no'))
    const { clock, store, get, steps } = await scene(async task => [
      await task.step('create', create),
      await task.step('call', call, { policy: ONCE }),
    ])
    expect(await get()).toMatchObject({ status: 'dead' })
    await clock.advance('1s')
    await store.redrive(['t'], { who: 'ann' })
    await clock.advance(0)
    expect(await get()).toMatchObject({ status: 'succeeded', result: '[1,2]' })
    expect(create).toHaveBeenCalledTimes(1)
    const [, second] = await steps()
    expect(second?.ledger.map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
      [1, 'gave_up'],
      [1, 'succeeded'],
    ])
  })

  it('has a time limit of its own', async () => {
    const { clock, get, steps } = await scene(
      async task =>
        await task.step(
          'hang',
          ({ signal }) => new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason))),
          {
            timeout: '10s',
            policy: ONCE,
          },
        ),
    )
    await clock.advance('10s')
    expect(await get()).toMatchObject({ status: 'dead', errorCode: 'timeout' })
    expect(await steps()).toMatchObject([{ gaveUp: 'attempts_exhausted' }])
  })

  it('is not given up when its time to live has ended, unless it was', async () => {
    const call = failing(9, 0)
    const { clock, get } = await scene(task =>
      task.step('call', call, { policy: { attempts: 9, backoff: ['1h'], jitter: 'none', ttl: '90m' } }),
    )
    await clock.advance('1h')
    expect(await get()).toMatchObject({
      status: 'dead',
      reason: 'ttl_expired',
      errorMessage: "Error: step 'call': down",
    })
    expect(call).toHaveBeenCalledTimes(2)
  })
})

describe('a handler', () => {
  it('may catch the error of a step that was given up, which then rejects again at once', async () => {
    const call = failing(9, 0, () => new FinalError('no', { code: 'nope' }))
    const caught: unknown[] = []
    const { clock, get } = await scene(async task => {
      const error = await task.step('optional', call).catch((error: unknown) => error)
      caught.push(error)
      if (task.attempt === 1) throw new Error('later')
      return 'done'
    })
    await clock.advance('1m')
    expect(await get()).toMatchObject({ status: 'succeeded', result: '"done"' })
    expect(call).toHaveBeenCalledTimes(1)
    for (const error of caught)
      expect(error).toMatchObject({ step: 'optional', reason: 'final_error', errorCode: 'nope', code: 'step_failed' })
    expect(caught.map(error => error instanceof StepFailedError && error.message)).toEqual(
      Array(2).fill("The step 'optional' was given up (final_error): FinalError: no"),
    )
  })

  it('dies of a step whose error is a cause of its own', async () => {
    const { get } = await scene(async task => {
      try {
        await task.step('call', failing(9, 0), { policy: ONCE })
      } catch (cause) {
        throw new Error('signup failed', { cause })
      }
    })
    expect(await get()).toMatchObject({
      status: 'dead',
      reason: 'attempts_exhausted',
      errorMessage: "Error: step 'call': down",
    })
  })

  it('cannot keep its task from waiting for a step, by swallowing its error or with another', async () => {
    const policy = { attempts: 2, backoff: ['10m'], jitter: 'none' } as const
    const errors: unknown[] = []
    for (const then of [() => 'swallowed', () => Promise.reject(new Error('another'))]) {
      const call = failing(1, 'ok')
      const after = vi.fn(() => 1)
      const { clock, get } = await scene(async task => {
        const result = await task.step('call', call, { policy }).catch(async (error: unknown) => {
          errors.push(error)
          return then()
        })
        await task.step('after', after)
        return result
      })
      expect(await get()).toMatchObject({ status: 'waiting', attempts: 0, nextAttemptAt: clock.now() + 600_000 })
      await clock.advance('10m')
      expect(await get()).toMatchObject({ status: 'succeeded', result: '"ok"' })
    }
    expect(errors.every(error => error instanceof StepError && error.code === 'step_waits')).toBe(true)
  })

  it('ends after the steps that it did not await, and with their failure', async () => {
    const slow = vi.fn(() => 1)
    const { clock, get, steps } = await scene(async (task, now) => {
      void task.step('slow', async () => {
        await sleep(1000, now)
        return slow()
      })
      void task.step('bad', async () => {
        await sleep(500, now)
        throw new FinalError('no')
      })
      return 'too early'
    })
    await clock.advance('1s')
    expect(slow).toHaveBeenCalledTimes(1)
    expect(await get()).toMatchObject({ status: 'dead', errorMessage: "FinalError: step 'bad': no" })
    expect(await steps()).toMatchObject([{ name: 'bad' }, { name: 'slow', isDone: true }])
  })

  it('cannot begin a step once it has ended', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    let begin: () => Promise<unknown> = async () => {}
    const late = vi.fn()
    const { get } = await scene(async task => {
      begin = () => task.step('late', late)
    })
    expect(await get()).toMatchObject({ status: 'succeeded' })
    await expect(begin()).rejects.toThrow("The step 'late' began after its handler had ended, and was not run.")
    expect(late).not.toHaveBeenCalled()
    expect(warned).toHaveBeenCalledTimes(1)
    warned.mockRestore()
  })

  it('may have a step within a step, whose end is its own', async () => {
    const inner = failing(1, 'in')
    const { clock, get, steps } = await scene(task =>
      task.step('outer', async () => [
        await task.step('inner', inner, { policy: { backoff: ['10m'], jitter: 'none' } }),
      ]),
    )
    expect(await get()).toMatchObject({ status: 'waiting', attempts: 0 })
    expect((await steps()).map(({ name }) => name)).toEqual(['inner'])
    await clock.advance('10m')
    expect(await get()).toMatchObject({ status: 'succeeded', result: '["in"]' })
  })

  it('may repeat a step around others, of which none that is done runs again', async () => {
    const [inner, late] = [vi.fn(() => 'in'), vi.fn(() => 'late')]
    let outer = 0
    const { clock, get, steps } = await scene((task, now) =>
      task.step(
        'outer',
        async () => {
          const first = await task.step('inner', inner)
          const slow = task.step('late', async () => {
            await sleep(3000, now)
            return late()
          })
          if (++outer < 3) throw new Error('again')
          return [first, await slow]
        },
        { policy: { attempts: 5, backoff: ['1s'], jitter: 'none' } },
      ),
    )
    await clock.advance('1s')
    await clock.advance('1s')
    await clock.advance('1s')
    expect(await get()).toMatchObject({ status: 'succeeded', result: '["in","late"]', attempts: 0 })
    expect([outer, inner.mock.calls.length, late.mock.calls.length]).toEqual([3, 1, 1])
    expect((await steps()).map(({ name }) => name)).toEqual(['inner', 'outer', 'late'])
  })

  it('may have ten thousand steps, one after the other or at once', async () => {
    const names = Array.from({ length: 10_000 }, (_, n) => `step:${n}`)
    const work = vi.fn(() => 1)
    const { clock, get, steps } = await scene(async task => {
      for (const name of names.slice(0, 5000)) await task.step(name, work)
      await Promise.all(names.slice(5000).map(name => task.step(name, work)))
      if (task.attempt === 1) throw new Error('again')
      return work.mock.calls.length
    })
    await clock.advance('1m')
    expect(await get()).toMatchObject({ status: 'succeeded', result: '10000' })
    expect(await steps()).toHaveLength(10_000)
  })

  it('of several steps that wait goes on with the first that is due, and dies at once if another is given up', async () => {
    const at = (delay: Duration): StepOptions => ({ policy: { attempts: 2, backoff: [delay], jitter: 'none' } })
    const [hour, minute, second] = [failing(1, 1), failing(1, 2), failing(1, 3)]
    const { clock, get } = await scene(task =>
      Promise.all([
        task.step('hour', hour, at('1h')),
        task.step('minute', minute, at('1m')),
        task.step('second', second, at('1s')),
      ]),
    )
    expect(await get()).toMatchObject({ status: 'waiting', nextAttemptAt: clock.now() + 1000 })
    await clock.advance('1s')
    expect(await get()).toMatchObject({ status: 'waiting', nextAttemptAt: clock.now() + 59_000 })
    await clock.advance('1h')
    expect(await get()).toMatchObject({ status: 'succeeded', result: '[1,2,3]' })

    const dying = await scene(task =>
      Promise.all([task.step('hour', failing(1, 1), at('1h')), task.step('bad', failing(9, 2), { policy: ONCE })]),
    )
    expect(await dying.get()).toMatchObject({ status: 'dead', errorMessage: "Error: step 'bad': down" })
  })
})

describe('an attempt that is cut short', () => {
  it('aborts its steps, and costs them nothing', async () => {
    const { clock, store, get, steps } = await scene((task, now) =>
      task.step('slow', async ({ signal }) => {
        await sleep(10_000, now, signal)
      }),
    )
    await store.cancel(['t'], { who: 'ann' })
    await clock.advance(0)
    await clock.advance('10s')
    expect(await get()).toMatchObject({ status: 'cancelled' })
    expect(await steps()).toEqual([])
  })

  it('by its worker, which stops, leaves a step that waits as it is on record', async () => {
    const call = failing(1, 'ok')
    const { clock, worker, add, get, steps } = await scene(
      task => task.step('call', call, { policy: { backoff: ['4s'], jitter: 'none' } }),
      { grace: 0 },
    )
    expect(await steps()).toMatchObject([{ attempts: 1, nextAt: clock.now() + 4000 }])
    const stopped = worker.stop()
    await clock.advance(0)
    await stopped
    expect(await get()).toMatchObject({ status: 'waiting', attempts: 0, losses: 0 })
    await add('w2')
    await clock.advance('1s')
    expect(call).toHaveBeenCalledTimes(1)
    await clock.advance('3s')
    expect(await get()).toMatchObject({ status: 'succeeded', result: '"ok"' })
    expect(call).toHaveBeenCalledTimes(2)
  })
})
