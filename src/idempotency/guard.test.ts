import fc from 'fast-check'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { classify, FinalError, OptionError, policies } from '../policy/index.js'
import type { Work, WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { fingerprint } from './idempotency-key.js'
import {
  IdempotencyGuard,
  IdempotencyInProgressError,
  IdempotencyKeyError,
  IdempotencyLeaseLostError,
  IdempotencyMismatchError,
  IdempotencyParamsError,
  IdempotencyResultUnavailableError,
  type IdempotencyStore,
  MemoryIdempotencyStore,
} from './index.js'
import type { IdempotencyGuardOptions } from './internal.js'

const work: Work = { kind: 'call', id: '1', name: 'charge' }

function setUp(options: Partial<IdempotencyGuardOptions> = {}) {
  const clock = fakeClock()
  const store = new MemoryIdempotencyStore({ clock })
  const guard = new IdempotencyGuard({ store, clock, ...options })
  const another = new IdempotencyGuard({ store, clock })
  return { clock, store, guard, another }
}

/** A store whose verbs can be broken one by one: `broken.complete = () => { throw … }`. */
function breakable(store: IdempotencyStore) {
  const broken: Partial<IdempotencyStore> = {}
  const through: IdempotencyStore = {
    claim: async (key, request) => (broken.claim ?? store.claim.bind(store))(key, request),
    renew: async (key, token, leaseMs) => (broken.renew ?? store.renew.bind(store))(key, token, leaseMs),
    complete: async (key, token, result) => (broken.complete ?? store.complete.bind(store))(key, token, result),
    release: async (key, token) => (broken.release ?? store.release.bind(store))(key, token),
    clear: async key => (broken.clear ?? store.clear.bind(store))(key),
  }
  return { broken, through }
}

const down = () => Promise.reject(new Error('the store is down'))

/** A function whose end the test decides. */
function controlled<T>() {
  const runs: { resolve(value: T): void; reject(error: unknown): void; signal: AbortSignal }[] = []
  const fn = ({ signal }: { signal: AbortSignal }) =>
    new Promise<T>((resolve, reject) => void runs.push({ resolve, reject, signal }))
  const run = (index: number) => {
    const found = runs[index]
    if (found === undefined) throw new Error(`run ${index} has not started`)
    return found
  }
  return { fn, run, runs }
}

/** Returns the current state of a promise, without waiting for it. */
async function stateOf(promise: Promise<unknown>, clock: FakeClock): Promise<string> {
  let state = 'pending'
  promise.then(
    () => (state = 'fulfilled'),
    () => (state = 'rejected'),
  )
  await clock.advance(0)
  return state
}

describe('a key', () => {
  it('runs its function once, however often it is used', async () => {
    const { guard } = setUp()
    const fn = vi.fn(async () => ({ receipt: 7 }))
    expect(await guard.run('k', fn)).toEqual({ receipt: 7 })
    expect(await guard.run('k', fn)).toEqual({ receipt: 7 })
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it.each([[undefined], [null], [false], [0], ['']])('whose result is %j is a hit', async result => {
    const { guard, another } = setUp()
    const fn = vi.fn(() => result)
    expect(await guard.run('k', fn)).toBe(result)
    expect(await another.run('k', fn)).toBe(result)
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('runs its function once for 100 callers at once, and all get the result', async () => {
    const { clock, guard } = setUp()
    const { fn, run, runs } = controlled<number>()
    const callers = Array.from({ length: 100 }, () => guard.run('k', fn))
    await clock.advance('5m')
    run(0).resolve(42)
    expect(await Promise.all(callers)).toEqual(Array(100).fill(42))
    expect(runs).toHaveLength(1)
    expect(clock.timers).toBe(0)
  })

  it('runs its function once for 100 callers through guards that only share the store', async () => {
    const { clock, store } = setUp()
    const { fn, run, runs } = controlled<number>()
    const callers = Array.from({ length: 100 }, () => new IdempotencyGuard({ store, clock }).run('k', fn))
    await clock.advance('5m')
    run(0).resolve(42)
    await clock.advance('1s')
    expect(await Promise.all(callers)).toEqual(Array(100).fill(42))
    expect(runs).toHaveLength(1)
    expect(clock.timers).toBe(0)
  })

  it('that is cleared runs its function again', async () => {
    const { guard } = setUp()
    const fn = vi.fn(() => 1)
    await guard.run('k', fn)
    await guard.clear('k')
    await guard.run('k', fn)
    expect(fn).toHaveBeenCalledTimes(2)
  })

  it('with other parameters is an error, whether it is done or in progress', async () => {
    const { guard, another, clock } = setUp()
    const { fn, run, runs } = controlled<number>()
    const first = guard.run('k', fn, { params: { cents: 100, to: 'a' } })
    await clock.advance(0)
    const other = { params: { cents: 101, to: 'a' } }
    await expect(another.run('k', fn, other)).rejects.toThrow(IdempotencyMismatchError)
    run(0).resolve(1)
    await first
    await expect(another.run('k', fn, other)).rejects.toMatchObject({ code: 'idempotency_mismatch', key: 'k' })
    expect(await another.run('k', fn, { params: { to: 'a', cents: 100 } })).toBe(1)
    expect(runs).toHaveLength(1)
  })

  it('that is empty or longer than 255 characters is refused before anything runs', async () => {
    const { guard, store } = setUp()
    const fn = vi.fn()
    await expect(guard.run('', fn)).rejects.toThrow(IdempotencyKeyError)
    await expect(guard.run('k'.repeat(256), fn)).rejects.toThrow(/'k{47}…k{16}' \(256 characters\)/)
    await expect(guard.clear('')).rejects.toThrow(IdempotencyKeyError)
    await expect(guard.run('k', fn, { params: { n: 1n } })).rejects.toThrow(IdempotencyParamsError)
    expect(fn).not.toHaveBeenCalled()
    expect(store.size).toBe(0)
  })
})

describe('a failure', () => {
  it('is thrown as it is, is not stored, and releases the key', async () => {
    const { guard, store } = setUp()
    const failure = new Error('declined')
    await expect(guard.run('k', () => Promise.reject(failure))).rejects.toBe(failure)
    expect(store.size).toBe(0)
    await expect(
      guard.run('k', () => {
        throw failure
      }),
    ).rejects.toBe(failure)
    expect(await guard.run('k', () => 1)).toBe(1)
  })

  it('hands the key to one of those who wait', async () => {
    const { clock, guard } = setUp()
    const { fn, run, runs } = controlled<number>()
    const callers = Array.from({ length: 10 }, () => guard.run('k', fn))
    await clock.advance('1s')
    run(0).reject(new Error('declined'))
    await expect(callers[0]).rejects.toThrow('declined')
    await clock.advance(0)
    expect(runs).toHaveLength(2)
    run(1).resolve(2)
    expect(await Promise.all(callers.slice(1))).toEqual(Array(9).fill(2))
    expect(runs).toHaveLength(2)
  })

  it('is thrown as it is even if the key cannot be released; its lease runs out', async () => {
    const { clock, store } = setUp()
    const { broken, through } = breakable(store)
    const guard = new IdempotencyGuard({ store: through, clock })
    broken.release = vi.fn(down)
    const failing = guard.run('k', () => Promise.reject(new Error('declined')))
    const outcome = expect(failing).rejects.toThrow('declined')
    await clock.advance('1s')
    await outcome
    expect(broken.release).toHaveBeenCalledTimes(4)
    const next = guard.run('k', () => 1)
    await clock.advance('30s')
    expect(await next).toBe(1)
  })

  it('of a claim is thrown, and nothing runs', async () => {
    const { clock, store } = setUp()
    const { broken, through } = breakable(store)
    broken.claim = down
    const fn = vi.fn()
    await expect(new IdempotencyGuard({ store: through, clock }).run('k', fn)).rejects.toThrow('the store is down')
    expect(fn).not.toHaveBeenCalled()
  })
})

describe('who waits for a key in progress', () => {
  it('is told at once if it does not want to wait', async () => {
    const { clock, guard, another } = setUp()
    const first = guard.run('k', controlled<number>().fn)
    first.catch(() => {})
    await clock.advance('5s')
    for (const wait of [false, 0] as const) {
      const refused = another.run('k', () => 1, { wait })
      await expect(refused).rejects.toThrow(IdempotencyInProgressError)
      await expect(refused).rejects.toMatchObject({ code: 'idempotency_in_progress', leaseLeftMs: 25_000 })
    }
    const impatient = new IdempotencyGuard({ store: new MemoryIdempotencyStore(), wait: false })
    void impatient.run('k', () => new Promise(() => {}))
    await expect(impatient.run('k', () => 1)).rejects.toThrow(IdempotencyInProgressError)
  })

  it('waits for exactly as long as it said, and leaves no timer behind', async () => {
    const { clock, guard, another } = setUp()
    const { fn, run } = controlled<number>()
    const first = guard.run('k', fn)
    await clock.advance(0)
    const second = another.run('k', fn, { wait: '5s' })
    const outcome = expect(second).rejects.toThrow(IdempotencyInProgressError)
    await clock.advance(4999)
    expect(await stateOf(second, clock)).toBe('pending')
    await clock.advance(1)
    expect(await stateOf(second, clock)).toBe('rejected')
    await outcome
    run(0).resolve(1)
    await first
    expect(clock.timers).toBe(0)
  })

  it('gets the result at the last moment', async () => {
    const { clock, guard, another } = setUp()
    const { fn, run } = controlled<number>()
    void guard.run('k', fn)
    await clock.advance(0)
    const second = another.run('k', fn, { wait: '5s' })
    await clock.advance(4999)
    run(0).resolve(1)
    await clock.advance(1)
    expect(await second).toBe(1)
  })

  it('asks the store at delays that grow to a second, with jitter, and is woken when the owner is in its process', async () => {
    const { clock, store } = setUp()
    const { broken, through } = breakable(store)
    const claim = vi.fn(store.claim.bind(store))
    broken.claim = claim
    const guard = new IdempotencyGuard({ store: through, clock, random: () => 0 })
    const { fn, run } = controlled<number>()
    void guard.run('k', fn)
    await clock.advance(0)
    claim.mockClear()
    const second = guard.run('k', fn)
    // Half of 20, 40, 80, 160, 320, 640 and 1000 ms, and then of 1000 ms for good.
    await clock.advance(10 + 20 + 40 + 80 + 160 + 320 + 500 + 499)
    expect(claim).toHaveBeenCalledTimes(8)
    run(0).resolve(1)
    expect(await second).toBe(1)
  })

  it('settles at once when it aborts, and the owner goes on', async () => {
    const { clock, guard, another } = setUp()
    const { fn, run } = controlled<number>()
    const first = guard.run('k', fn)
    await clock.advance(0)
    const controller = new AbortController()
    const second = another.run('k', fn, { signal: controller.signal })
    await clock.advance('10s')
    controller.abort(new Error('no longer wanted'))
    await expect(second).rejects.toThrow('no longer wanted')
    expect(run(0).signal.aborted).toBe(false)
    run(0).resolve(1)
    expect(await first).toBe(1)
    expect(clock.timers).toBe(0)
  })
})

describe('an abort', () => {
  it('before the run means that nothing is claimed', async () => {
    const { guard, store } = setUp()
    const claim = vi.spyOn(store, 'claim')
    const fn = vi.fn()
    await expect(guard.run('k', fn, { signal: AbortSignal.abort(new Error('no')) })).rejects.toThrow('no')
    expect(fn).not.toHaveBeenCalled()
    expect(claim).not.toHaveBeenCalled()
  })

  it('during the claim settles at once; the key is released when the claim comes back', async () => {
    const { clock, store } = setUp()
    const { broken, through } = breakable(store)
    let letGo = () => {}
    broken.claim = async (key, request) => {
      await new Promise<void>(resolve => (letGo = resolve))
      return store.claim(key, request)
    }
    const fn = vi.fn()
    const controller = new AbortController()
    const run = new IdempotencyGuard({ store: through, clock }).run('k', fn, { signal: controller.signal })
    await clock.advance(0)
    controller.abort(new Error('no'))
    await expect(run).rejects.toThrow('no')
    letGo()
    await clock.advance(0)
    expect(fn).not.toHaveBeenCalled()
    expect(store.size).toBe(0)
  })

  it('while the function runs settles at once, is passed on, and the result is recorded in the end', async () => {
    const { clock, guard, another } = setUp()
    const { fn, run, runs } = controlled<number>()
    const controller = new AbortController()
    const first = guard.run('k', fn, { signal: controller.signal })
    await clock.advance(0)
    controller.abort(new Error('no'))
    await expect(first).rejects.toThrow('no')
    expect(run(0).signal.reason).toBe(controller.signal.reason)

    const second = another.run('k', fn)
    await clock.advance('5m')
    expect(runs).toHaveLength(1)
    run(0).resolve(1)
    await clock.advance('1s')
    expect(await second).toBe(1)
  })

  it('that the function honours releases the key', async () => {
    const { clock, guard, store } = setUp()
    const controller = new AbortController()
    const first = guard.run(
      'k',
      ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      { signal: controller.signal },
    )
    await clock.advance(0)
    controller.abort(new Error('no'))
    await expect(first).rejects.toThrow('no')
    await clock.advance(0)
    expect(store.size).toBe(0)
    expect(clock.timers).toBe(0)
  })
})

describe('a lease', () => {
  it('is renewed for as long as the function runs', async () => {
    const { clock, guard, another } = setUp({ lease: '3s' })
    const { fn, run } = controlled<number>()
    const first = guard.run('k', fn)
    await clock.advance('1h')
    await expect(another.run('k', fn, { wait: false })).rejects.toMatchObject({ leaseLeftMs: 3000 })
    run(0).resolve(1)
    expect(await first).toBe(1)
    expect(clock.timers).toBe(0)
  })

  it('is given up when the store refuses for good, and nothing is left that would keep the process alive', async () => {
    const clock = fakeClock()
    const { broken, through } = breakable(new MemoryIdempotencyStore({ clock }))
    const guard = new IdempotencyGuard({ store: through, clock })
    const { fn, run } = controlled()
    void guard.run('k', fn)
    await clock.advance('1s')
    broken.renew = () => Promise.reject(new FinalError('closed'))
    await clock.advance('10s')
    expect(run(0).signal.reason).toBeInstanceOf(IdempotencyLeaseLostError)
    expect(clock.timers).toBe(0)
  })

  it('survives two renewals that fail', async () => {
    const { clock, store, another } = setUp()
    const { broken, through } = breakable(store)
    const { fn, run, runs } = controlled<number>()
    const first = new IdempotencyGuard({ store: through, clock, lease: '30s' }).run('k', fn)
    broken.renew = vi.fn(down)
    await clock.advance('25s')
    expect(broken.renew).toHaveBeenCalledTimes(2)
    delete broken.renew
    const second = another.run('k', fn)
    await clock.advance('30s')
    expect(runs).toHaveLength(1)
    expect(run(0).signal.aborted).toBe(false)
    run(0).resolve(1)
    await clock.advance('1s')
    expect(await Promise.all([first, second])).toEqual([1, 1])
  })

  /** One guard runs, cannot renew, and another takes its key over. */
  async function takenOver() {
    const { clock, store, another } = setUp()
    const { broken, through } = breakable(store)
    const guard = new IdempotencyGuard({ store: through, clock })
    const mine = controlled<string>()
    const theirs = controlled<string>()
    broken.renew = down
    const run = (options = {}) => guard.run('k', mine.fn, options)
    return {
      clock,
      store,
      guard,
      mine,
      theirs,
      run,
      async takeOver() {
        await clock.advance(0)
        const other = another.run('k', theirs.fn)
        await clock.advance('31s')
        expect(theirs.runs).toHaveLength(1)
        delete broken.renew
        // The next heartbeat of the old owner learns of it.
        await clock.advance('10s')
        return { other }
      },
    }
  }

  it('that is taken over aborts the function’s signal', async () => {
    const { mine, run, takeOver } = await takenOver()
    const first = run()
    const outcome = expect(first).rejects.toThrow(IdempotencyLeaseLostError)
    await takeOver()
    expect(mine.run(0).signal.reason).toBeInstanceOf(IdempotencyLeaseLostError)
    mine.run(0).reject(mine.run(0).signal.reason)
    await outcome
  })

  it('that is taken over means that the old owner’s result is refused, and all get the new owner’s', async () => {
    const { clock, mine, theirs, run, takeOver, guard } = await takenOver()
    const first = run()
    const { other } = await takeOver()
    mine.run(0).resolve('mine')
    await clock.advance('1s')
    expect(await stateOf(first, clock)).toBe('pending')
    theirs.run(0).resolve('theirs')
    await clock.advance('1s')
    expect(await other).toBe('theirs')
    expect(await first).toBe('theirs')
    expect(await guard.run('k', () => 'again')).toBe('theirs')
    expect(mine.runs.length + theirs.runs.length).toBe(2)
    expect(clock.timers).toBe(0)
  })

  it('that is taken over, by one who then fails, leaves the key to the result that is there', async () => {
    const { clock, mine, theirs, run, takeOver, guard } = await takenOver()
    const first = run()
    const { other } = await takeOver()
    const outcome = expect(other).rejects.toThrow('declined')
    mine.run(0).resolve('mine')
    await clock.advance('1s')
    theirs.run(0).reject(new Error('declined'))
    await clock.advance('1s')
    await outcome
    expect(await first).toBe('mine')
    expect(await guard.run('k', () => 'again')).toBe('mine')
    expect(mine.runs).toHaveLength(1)
  })

  it('that is taken over, by one whose result cannot be waited for, is a clear error', async () => {
    const { clock, mine, run, takeOver } = await takenOver()
    const first = run({ wait: '5s' })
    const outcome = expect(first).rejects.toMatchObject({
      code: 'idempotency_lease_lost',
      cause: expect.any(IdempotencyInProgressError),
    })
    await takeOver()
    mine.run(0).resolve('mine')
    await clock.advance(4999)
    expect(await stateOf(first, clock)).toBe('pending')
    await clock.advance(1)
    await outcome
  })

  it('that is taken over from one who had waited for the key itself lets it wait anew', async () => {
    const { clock, store, mine, theirs, run, takeOver } = await takenOver()
    // Claim as `run` without parameters does, for an owner that died.
    await store.claim('k', { fingerprint: fingerprint('k', undefined), leaseMs: 4000 })
    const first = run({ wait: '5s' })
    await clock.advance('5s')
    expect(mine.runs).toHaveLength(1)
    const { other } = await takeOver()
    mine.run(0).resolve('mine')
    await clock.advance('4s')
    theirs.run(0).resolve('theirs')
    await clock.advance('1s')
    expect(await Promise.all([first, other])).toEqual(['theirs', 'theirs'])
  })

  it('that an operator cleared does not lose the result of what was running', async () => {
    const { clock, guard, another } = setUp()
    const { fn, run } = controlled<number>()
    const first = guard.run('k', fn)
    await clock.advance(0)
    await another.clear('k')
    run(0).resolve(1)
    expect(await first).toBe(1)
    expect(await another.run('k', () => 2)).toBe(1)
  })
})

describe('a store that fails after the function succeeded', () => {
  function failing(complete: IdempotencyStore['complete'] = down) {
    const { clock, store, another } = setUp()
    const { broken, through } = breakable(store)
    broken.complete = vi.fn(complete)
    const events: WorkEvent[] = []
    const sink = (event: WorkEvent) => void events.push(event)
    const fn = vi.fn(() => ({ receipt: 7 }))
    const guard = new IdempotencyGuard({ store: through, clock })
    return { clock, store, another, broken, guard, events, fn, run: () => guard.run('k', fn, { sink, work }) }
  }

  it('is asked again a few times, and then the caller gets its result and the event says so', async () => {
    const { clock, broken, events, run } = failing()
    const first = run()
    await clock.advance(0)
    expect(await stateOf(first, clock)).toBe('pending')
    await clock.advance(350)
    expect(await first).toEqual({ receipt: 7 })
    expect(events).toEqual([
      expect.objectContaining({
        type: 'idempotency_not_recorded',
        key: 'k',
        work,
        failure: new Error('the store is down'),
      }),
    ])
    expect(vi.mocked(broken.complete ?? down).mock.calls.length).toBeGreaterThanOrEqual(4)
  })

  it('never causes a second run: not at once, not after the lease, not through another guard', async () => {
    const { clock, another, fn, run } = failing()
    void run()
    await clock.advance('1s')
    for (let minute = 0; minute < 14; minute++) {
      expect(await run()).toEqual({ receipt: 7 })
      await expect(another.run('k', fn, { wait: false })).rejects.toThrow(IdempotencyInProgressError)
      await clock.advance('1m')
    }
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('never causes a second run for those who were waiting', async () => {
    const { clock, fn, run } = failing()
    const callers = Array.from({ length: 20 }, run)
    await clock.advance('1s')
    expect(await Promise.all(callers)).toEqual(Array(20).fill({ receipt: 7 }))
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('records the result when it is back', async () => {
    const { clock, another, broken, events, fn, run } = failing()
    void run()
    await clock.advance('5m')
    delete broken.complete
    await clock.advance('31s')
    expect(events.map(({ type }) => type)).toEqual(['idempotency_not_recorded', 'idempotency_recorded'])
    expect(await another.run('k', fn)).toEqual({ receipt: 7 })
    expect(fn).toHaveBeenCalledTimes(1)
    expect(clock.timers).toBe(0)
  })

  it('that took the write but lost the answer has it on record once', async () => {
    let answers = 0
    const { clock, store, broken, events, run } = failing()
    broken.complete = async (key, token, result) => {
      const answer = await store.complete(key, token, result)
      if (++answers === 1) throw new Error('connection reset')
      return answer
    }
    const first = run()
    await clock.advance('1s')
    expect(await first).toEqual({ receipt: 7 })
    expect(events.map(({ type }) => type)).toEqual(['idempotency_recorded'])
  })

  it('that never takes the result is given a marker, so that the key is done all the same', async () => {
    const { clock, store, another, broken, fn, run } = failing()
    broken.complete = async (key, token, result) => {
      if (result.includes('receipt')) throw new Error('value too large')
      return store.complete(key, token, result)
    }
    void run()
    await clock.advance('16m')
    await expect(another.run('k', fn)).rejects.toThrow(/the store did not take it/)
    await expect(run()).rejects.toThrow(IdempotencyResultUnavailableError)
    expect(fn).toHaveBeenCalledTimes(1)
    expect(clock.timers).toBe(0)
  })

  it('still tells other parameters apart', async () => {
    const { clock, guard, fn, run } = failing()
    void run()
    await clock.advance('1s')
    await expect(guard.run('k', fn, { params: { other: true } })).rejects.toThrow(IdempotencyMismatchError)
  })

  it('does not keep the process alive once the guard is closed, and is asked one last time', async () => {
    const { clock, another, broken, guard, fn, run } = failing()
    void run()
    await clock.advance('1m')
    expect(clock.timers).toBeGreaterThan(0)
    delete broken.complete
    guard.close()
    await clock.advance(0)
    expect(clock.timers).toBe(0)
    expect(await another.run('k', fn)).toEqual({ receipt: 7 })
  })

  it('that fails for good once the guard is closed loses the result, not the process', async () => {
    const { clock, guard, run } = failing()
    void run()
    await clock.advance('1m')
    guard.close()
    await clock.advance(0)
    expect(clock.timers).toBe(0)
  })

  it('does not keep what is cleared', async () => {
    const { clock, broken, guard, fn, run } = failing()
    void run()
    await clock.advance('1s')
    await guard.clear('k')
    delete broken.complete
    await run()
    expect(fn).toHaveBeenCalledTimes(2)
  })
})

describe('a result that JSON cannot hold', () => {
  it('goes to who ran; all others get a clear error, and nothing is run again', async () => {
    const { clock, guard, another } = setUp()
    const { fn, run, runs } = controlled<bigint>()
    const first = guard.run('k', fn)
    await clock.advance(0)
    const waiting = expect(guard.run('k', fn)).rejects.toThrow(/not available: JSON cannot hold a bigint/)
    run(0).resolve(7n)
    expect(await first).toBe(7n)
    await waiting
    await expect(another.run('k', fn)).rejects.toMatchObject({ code: 'idempotency_result_unavailable', key: 'k' })
    expect(runs).toHaveLength(1)
  })
})

describe('the events of a run', () => {
  it('are a record for the one who ran and a hit for the others', async () => {
    const { clock, guard } = setUp()
    const events: WorkEvent[] = []
    const options = { work, sink: (event: WorkEvent) => void events.push(event) }
    await guard.run('k', () => 1, options)
    await clock.advance('1s')
    await guard.run('k', () => 1, options)
    const at = Date.UTC(2000, 0, 1)
    expect(events).toEqual([
      { type: 'idempotency_recorded', work, at, key: 'k' },
      { type: 'idempotency_hit', work, at: at + 1000, key: 'k' },
    ])
  })

  it('are none for a failure, and a sink that throws changes nothing', async () => {
    const { guard } = setUp()
    const sink = vi.fn(() => {
      throw new Error('broken sink')
    })
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    onTestFinished(() => warned.mockRestore())
    await expect(guard.run('k', () => Promise.reject(new Error('x')), { sink, work })).rejects.toThrow('x')
    expect(sink).not.toHaveBeenCalled()
    expect(await guard.run('k', () => 1, { sink, work })).toBe(1)
    expect(await guard.run('k', () => 2, { sink, work })).toBe(1)
    expect(sink).toHaveBeenCalledTimes(2)
  })
})

describe('options', () => {
  it.each([
    ['lease', { lease: 0 }],
    ['lease', { lease: 'soon' as '1s' }],
    ['wait', { wait: -1 }],
    ['wait', { wait: 'a bit' as '1s' }],
  ])('with a wrong %s are refused: %j', (option, options) => {
    const store = new MemoryIdempotencyStore()
    expect(() => new IdempotencyGuard({ store, ...options })).toThrow(OptionError)
    expect(() => new IdempotencyGuard({ store, ...options })).toThrow(expect.objectContaining({ option }))
  })

  it('of a run are checked before anything runs', async () => {
    const { guard, store } = setUp()
    await expect(guard.run('k', () => 1, { wait: Number.NaN })).rejects.toThrow(OptionError)
    expect(store.size).toBe(0)
  })
})

it('an outer retry tries again what may pass, and gives up on what will not', () => {
  const verdict = (error: Error) => classify(error, policies.call, 0).class
  expect(verdict(new IdempotencyInProgressError('k', 1))).toBe('retryable')
  expect(verdict(new IdempotencyLeaseLostError('k'))).toBe('retryable')
  expect(verdict(new IdempotencyMismatchError('k'))).toBe('final')
  expect(verdict(new IdempotencyKeyError('', 'is empty'))).toBe('final')
  expect(verdict(new IdempotencyParamsError('k', 'x'))).toBe('final')
  expect(verdict(new IdempotencyResultUnavailableError('k', 'x'))).toBe('final')
})

it('whatever fails when, one key has one result, and no two of its functions run at the same time', async () => {
  const step = fc.record({
    guard: fc.nat(2),
    startAfter: fc.nat(2000),
    takes: fc.nat(90_000),
    fails: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 12 }),
      fc.infiniteStream(fc.nat(9)),
      async (steps, luck) => {
        const clock = fakeClock()
        const { through } = breakable(new MemoryIdempotencyStore({ clock }))
        const store = { ...through }
        // One write in ten fails, but never three in a row: a lease survives two.
        let inARow = 0
        const unlucky = () => {
          inARow = luck.next().value === 0 && inARow < 2 ? inARow + 1 : 0
          return inARow > 0
        }
        store.renew = (...args) => (unlucky() ? down() : through.renew(...args))
        store.complete = (...args) => (unlucky() ? down() : through.complete(...args))
        store.release = (...args) => (unlucky() ? down() : through.release(...args))
        const guards = [0, 1, 2].map(() => new IdempotencyGuard({ store, clock }))
        let running = 0
        let atOnce = 0
        let succeeded = 0
        const outcomes = steps.map(async ({ guard, startAfter, takes, fails }, index) => {
          await sleep(startAfter, clock)
          return guards[guard]?.run('k', async () => {
            atOnce = Math.max(atOnce, ++running)
            await sleep(takes, clock)
            running--
            if (fails) throw new Error('declined')
            succeeded++
            return index
          })
        })
        const settled = Promise.allSettled(outcomes)
        await clock.advance('1h')
        const results = (await settled).flatMap(outcome => (outcome.status === 'fulfilled' ? [outcome.value] : []))
        expect(atOnce).toBe(1)
        expect(succeeded).toBe(steps.some(({ fails }) => !fails) ? 1 : 0)
        expect(new Set(results).size).toBe(succeeded)
        expect(clock.timers).toBe(0)
      },
    ),
    { numRuns: 30 },
  )
})

describe('a wrong option', () => {
  it('of a guard is refused', () => {
    const wrong = { store: new MemoryIdempotencyStore(), laese: '5s' }
    expect(() => new IdempotencyGuard(wrong)).toThrow("An idempotency guard takes no 'laese'. Did you mean 'lease'?")
  })

  it('of a run is refused, and the function is not called', async () => {
    const guard = new IdempotencyGuard({ store: new MemoryIdempotencyStore() })
    const fn = vi.fn()
    await expect(guard.run('k', fn, { prams: 1 } as object)).rejects.toThrow("Did you mean 'params'?")
    expect(fn).not.toHaveBeenCalled()
  })
})
