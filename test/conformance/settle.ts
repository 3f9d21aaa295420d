import assert from 'node:assert/strict'
import type { Outcome } from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  claim,
  claimIds,
  claimOne,
  entry,
  get,
  kill,
  laneOf,
  type StoreBehaviours,
  settle,
  settleUncounted,
  start,
  TIMED_OUT,
} from './harness.js'

const RETRY = { type: 'retry', delayMs: 0, isBackoff: true } as const

export const SETTLE: StoreBehaviours = {
  async 'the ledger keeps the stack of a failure'(store) {
    const task = await start(store)
    const stack = 'at charge (src/charge.ts:10:5)\nat handler (src/tasks.ts:3:1)'
    await settle(store, task, RETRY, { verdict: TIMED_OUT, error: 'Error: slow', stack })
    await kill(store, await claimOne(store))
    const rows = await store.ledger(task.id)
    assert.deepEqual(
      rows.map(row => row.stack),
      [stack, undefined],
    )
  },

  async 'encoded texts come back as they are: payload, error, stack and result'(store) {
    const encoded = `~redrive1 gzip+aes-256-gcm:2027:5f0c1a9e ${'QUJD'.repeat(40_000)}`
    const error = `HttpError: step 'charge': ${encoded}`
    const task = await start(store, { payload: encoded })
    assert.equal(task.payload, encoded)
    await settle(store, task, RETRY, { verdict: TIMED_OUT, error, stack: encoded })
    const again = await claimOne(store)
    assertFields(again, { payload: encoded, errorMessage: error })
    await settle(store, again, { type: 'succeeded', result: encoded })
    assertFields(await get(store, task.id), { payload: encoded, result: encoded })
    assertFields((await store.ledger(task.id))[0], { error, stack: encoded })
  },

  async 'a success ends a task, with its result'(store, advance) {
    const task = await start(store)
    await advance(5)
    assert.equal(await settle(store, task, { type: 'succeeded', result: '{"b":1, "a":2}' }), 'settled')
    assertFields(await get(store, task.id), {
      status: 'succeeded',
      result: '{"b":1, "a":2}',
      nextAttemptAt: undefined,
      changedAt: await store.now(),
    })
  },

  async 'a success without a result has none, and a result of null is one'(store) {
    await add(store, {}, {})
    const [first, second] = (await claim(store)).tasks
    if (first) await settle(store, first, { type: 'succeeded' })
    if (second) await settle(store, second, { type: 'succeeded', result: 'null' })
    assert.equal((await get(store, first?.id ?? '')).result, undefined)
    assert.equal((await get(store, second?.id ?? '')).result, 'null')
  },

  async 'a success clears counters and error, and the ledger keeps the history'(store) {
    const task = await start(store)
    await settle(store, task, RETRY, { verdict: TIMED_OUT, error: 'slow' })
    await settle(store, await claimOne(store), { type: 'succeeded', result: '1' })
    assertFields(await get(store, task.id), {
      attempts: 0,
      previousDelayMs: undefined,
      errorClass: undefined,
      errorCode: undefined,
      errorMessage: undefined,
      reason: undefined,
    })
    const outcomes = (await store.ledger(task.id)).map(({ outcome }) => outcome)
    assert.deepEqual(outcomes, ['retry', 'succeeded'])
  },

  async 'an attempt that stands for several counts as many'(store) {
    const task = await start(store)
    await settle(store, task, RETRY, { attempt: 4, verdict: TIMED_OUT, call: 'c' })
    assert.equal((await get(store, task.id)).attempts, 4)
    const again = await claimOne(store)
    assert.equal(again.attempts, 4)
    await settle(store, again, { type: 'deferred', delayMs: 0 }, { attempt: 9, verdict: TIMED_OUT })
    assertFields(await get(store, task.id), { attempts: 4, deferrals: 1 })
    await settle(store, await claimOne(store), { type: 'dead', reason: 'final_error' }, { attempt: 7, call: 'c' })
    assertFields(await get(store, task.id), { status: 'dead', attempts: 7 })
    assert.deepEqual(
      (await store.ledger(task.id)).map(({ attempt }) => attempt),
      [4, 9, 7],
    )
    // A number that is too low still counts as one more.
    await store.redrive([task.id], { who: 'ada' })
    await settle(store, await claimOne(store), RETRY, { attempt: 1 })
    await settle(store, await claimOne(store), RETRY, { attempt: 1 })
    assert.equal((await get(store, task.id)).attempts, 2)
  },

  async 'a success at once is on the ledger'(store) {
    const task = await start(store)
    const attempt = { attempt: 1, startedAt: task.changedAt, endedAt: task.changedAt + 17, worker: 'w1' }
    await store.settle([{ id: task.id, token: task.token, outcome: { type: 'succeeded', result: '1' }, attempt }])
    const rows = await store.ledger(task.id)
    assert.equal(rows.length, 1)
    assertFields(rows[0], {
      ...attempt,
      sequence: 1,
      outcome: 'succeeded',
      delayMs: undefined,
      reason: undefined,
      verdict: undefined,
      error: undefined,
    })
  },

  async 'a skipped task has ended, with its reason and without an error'(store) {
    const task = await start(store)
    await settle(store, task, RETRY, { verdict: TIMED_OUT, error: 'slow' })
    await settle(store, await claimOne(store), { type: 'skipped', reason: 'no longer wanted' })
    const expected = { status: 'skipped', reason: 'no longer wanted', attempts: 0, errorClass: undefined } as const
    assertFields(await get(store, task.id), expected)
    assertFields((await store.ledger(task.id))[1], { outcome: 'skipped', reason: 'no longer wanted', sequence: 2 })
  },

  async 'a retry counts as an attempt and waits for its delay, counted from the store’s now'(store, advance) {
    const task = await start(store)
    await advance(100)
    const verdict = { class: 'retryable', code: 'ECONNRESET' } as const
    await settle(store, task, { type: 'retry', delayMs: 60_000, isBackoff: true }, { verdict, error: 'Error: reset' })
    const now = await store.now()
    assertFields(await get(store, task.id), {
      status: 'waiting',
      nextAttemptAt: now + 60_000,
      changedAt: now,
      startedAt: now - 100,
      attempts: 1,
      deferrals: 0,
      losses: 0,
      previousDelayMs: 60_000,
      errorClass: 'retryable',
      errorCode: 'ECONNRESET',
      errorMessage: 'Error: reset',
    })
    await advance(59_999)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.deepEqual(await claimIds(store), [task.id])
  },

  async 'a delay that did not come from the backoff is not remembered for the next'(store, advance) {
    const task = await start(store)
    await settle(store, task, { type: 'retry', delayMs: 100, isBackoff: true })
    await advance(100)
    await settle(store, await claimOne(store), { type: 'retry', delayMs: 5000, isBackoff: false })
    assertFields(await get(store, task.id), { attempts: 2, previousDelayMs: 100 })
  },

  async 'a deferral costs no attempt and does not stretch the backoff'(store) {
    const task = await start(store)
    await settle(store, task, RETRY)
    const verdict = { class: 'rate_limited', code: '429', retryAfterMs: 5000 } as const
    await settle(store, await claimOne(store), { type: 'deferred', delayMs: 5000 }, { verdict, error: 'too many' })
    assertFields(await get(store, task.id), {
      status: 'waiting',
      nextAttemptAt: (await store.now()) + 5000,
      attempts: 1,
      deferrals: 1,
      previousDelayMs: 0,
      errorClass: 'rate_limited',
      errorCode: '429',
      errorMessage: 'too many',
    })
    assertFields((await store.ledger(task.id))[1], { outcome: 'deferred', delayMs: 5000, verdict, sequence: 2 })
  },

  async 'a task that asks to be called later costs nothing and holds nobody'(store) {
    const [later] = await add(store, { id: 'a' }, { id: 'b' })
    const [task] = (await claim(store, { limit: 1 })).tasks
    if (task) await settle(store, task, { type: 'later', delayMs: 5000 })
    const expected = { status: 'waiting', attempts: 0, deferrals: 0, losses: 0, previousDelayMs: undefined } as const
    assertFields(await get(store, later ?? ''), { ...expected, nextAttemptAt: (await store.now()) + 5000 })
    assertFields((await store.ledger('a'))[0], { outcome: 'later', delayMs: 5000 })
    assert.deepEqual(await claimIds(store), ['b'])
  },

  async 'a dead task keeps its error and its reason, and has no next time'(store) {
    const task = await start(store)
    await settle(store, task, RETRY, { verdict: TIMED_OUT, error: 'slow' })
    const verdict = { class: 'final', code: 'E_BAD' } as const
    await settle(store, await claimOne(store), { type: 'dead', reason: 'final_error' }, { verdict, error: 'bad' })
    assertFields(await get(store, task.id), {
      status: 'dead',
      reason: 'final_error',
      attempts: 2,
      nextAttemptAt: undefined,
      errorClass: 'final',
      errorCode: 'E_BAD',
      errorMessage: 'bad',
    })
    assertFields((await store.ledger(task.id))[1], { outcome: 'dead', reason: 'final_error', delayMs: undefined })
  },

  async 'a cancelled task has ended, and its attempt is on record'(store) {
    const task = await start(store)
    assert.equal(await settle(store, task, { type: 'cancelled' }), 'settled')
    assertFields(await get(store, task.id), { status: 'cancelled', attempts: 0, nextAttemptAt: undefined })
    assertFields((await store.ledger(task.id))[0], { outcome: 'cancelled', attempt: 1 })
  },

  async 'a released task is handed back uncounted, due at once, and not on the ledger'(store, advance) {
    const task = await start(store)
    await settle(store, task, RETRY)
    const again = await claimOne(store)
    await advance(10)
    assert.equal(await settleUncounted(store, again, { type: 'released' }), 'settled')
    const now = await store.now()
    const expected = { status: 'waiting', attempts: 1, deferrals: 0, losses: 0, nextAttemptAt: now } as const
    assertFields(await get(store, task.id), expected)
    assert.equal((await store.ledger(task.id)).length, 1)
    assertFields(await claimOne(store), { id: task.id, isUndecided: false })
  },

  async 'every field of an attempt is on the ledger, and rows are numbered in order'(store) {
    const id = (await start(store)).id
    await store.settle([{ id, token: 'not this one', outcome: RETRY }])
    const { tasks } = await claim(store)
    assert.deepEqual(tasks, [], 'it is still running')

    const rows = [
      { verdict: { class: 'rate_limited', code: '429', retryAfterMs: 1000 }, random: 0.123456789012345 },
      { verdict: { class: 'rate_limited', code: '429' }, random: 0 },
      { verdict: { class: 'retryable', code: 'unknown' }, error: `Error: é 😀 ' \u0000`, random: 0.999999 },
    ] as const
    await store.leave('w1')
    for (const [index, row] of rows.entries()) {
      const task = await claimOne(store)
      const more = { ...row, startedAt: 1000 + index, endedAt: 2000 + index, worker: `w${index}`, policy: 'hash' }
      await settle(store, task, RETRY, more)
      assertFields((await store.ledger(id))[index], {
        error: undefined,
        ...more,
        attempt: index + 1,
        sequence: index + 1,
        outcome: 'retry',
        delayMs: 0,
        reason: undefined,
      })
    }
    assert.equal((await store.ledger(id)).length, 3)
  },

  async 'a stale token changes nothing and says so'(store) {
    const old = await start(store)
    await settleUncounted(store, old, { type: 'released' })
    const outcomes: Outcome[] = [
      { type: 'succeeded', result: '1' },
      { type: 'skipped', reason: 'r' },
      RETRY,
      { type: 'deferred', delayMs: 1000 },
      { type: 'later', delayMs: 1000 },
      { type: 'dead', reason: 'final_error' },
      { type: 'cancelled' },
      { type: 'released' },
    ]
    const unchanged = async (what: string) => {
      const before = await get(store, old.id)
      for (const outcome of outcomes)
        assert.equal(await settle(store, old, outcome), 'stale', `${outcome.type} ${what}`)
      assert.deepEqual(await get(store, old.id), before)
    }
    await unchanged('on a task that waits')
    const task = await claimOne(store)
    await unchanged('on a task that somebody else runs')
    assert.equal(await settle(store, task, { type: 'succeeded', result: '2' }), 'settled')
    await unchanged('on a task that has ended')
    assert.equal((await store.ledger(old.id)).length, 1)
    assertFields((await store.lanes())[0], { heldUntil: undefined })
  },

  async 'what is settled twice is settled once'(store) {
    const task = await start(store)
    assert.equal(await settle(store, task, { type: 'succeeded', result: '1' }), 'settled')
    assert.equal(await settle(store, task, { type: 'succeeded', result: '2' }), 'stale')
    assert.equal((await get(store, task.id)).result, '1')
    assert.equal((await store.ledger(task.id)).length, 1)
  },

  async 'a batch is settled in its order, each by itself'(store) {
    await add(store, { id: 'a' }, { id: 'b' }, { id: 'c' })
    const { tasks } = await claim(store)
    const [a, b, c] = tasks
    assert.ok(a && b && c)
    const succeeded = { type: 'succeeded' } as const
    const settled = await store.settle([
      { id: 'c', token: c.token, outcome: succeeded, attempt: entry(c) },
      { id: 'unknown', token: c.token, outcome: succeeded, attempt: entry(c) },
      { id: 'b', token: a.token, outcome: succeeded, attempt: entry(b) },
      { id: 'a', token: a.token, outcome: { type: 'retry', delayMs: 1, isBackoff: true }, attempt: entry(a) },
      { id: 'a', token: a.token, outcome: succeeded, attempt: entry(a) },
    ])
    const results = settled.map(({ result }) => result)
    assert.deepEqual(results, ['settled', 'stale', 'stale', 'settled', 'stale'])
    assert.equal((await get(store, 'a')).status, 'waiting')
    assert.equal((await get(store, 'b')).status, 'running')
    assert.equal((await get(store, 'c')).status, 'succeeded')
  },

  async 'of 20 concurrent settlements with one token one takes effect'(store) {
    const task = await start(store)
    const settled = await Promise.all(Array.from({ length: 20 }, () => settle(store, task, RETRY)))
    assert.equal(settled.filter(answer => answer === 'settled').length, 1)
    assertFields(await get(store, task.id), { attempts: 1 })
    assert.equal((await store.ledger(task.id)).length, 1)
  },

  async 'what is given up without an attempt is not counted'(store) {
    const id = await addOne(store)
    await settleUncounted(store, await claimOne(store), { type: 'dead', reason: 'ttl_expired' })
    assertFields(await get(store, id), { status: 'dead', reason: 'ttl_expired', attempts: 0 })
    assert.deepEqual(await store.ledger(id), [])
  },

  async 'a deferral without an attempt holds its lane and is not counted'(store, advance) {
    const id = await addOne(store)
    await settleUncounted(store, await claimOne(store), { type: 'deferred', delayMs: 500 })
    assertFields(await get(store, id), { status: 'waiting', deferrals: 0, nextAttemptAt: (await store.now()) + 500 })
    assert.deepEqual(await store.ledger(id), [])
    assert.equal((await laneOf(store, { kind: 'k' })).heldUntil, (await store.now()) + 500)
    await advance(500)
    assertFields(await claimOne(store), { id, deferrals: 0 })
  },

  async 'no outcome without an attempt counts or is on the ledger'(store) {
    const outcomes: Outcome[] = [
      { type: 'succeeded', result: '1' },
      { type: 'skipped', reason: 'r' },
      RETRY,
      { type: 'later', delayMs: 0 },
      { type: 'dead', reason: 'final_error' },
      { type: 'cancelled' },
      { type: 'released' },
    ]
    for (const [index, outcome] of outcomes.entries()) {
      const kind = `k${index}`
      const id = await addOne(store, { kind })
      assert.equal(await settleUncounted(store, await claimOne(store, { kinds: [kind] }), outcome), 'settled')
      assertFields(await get(store, id), { attempts: 0, deferrals: 0, losses: 0 })
      assert.deepEqual(await store.ledger(id), [], outcome.type)
    }
  },

  async 'due times and holds are whole milliseconds, rounded up'(store, advance) {
    const now = await store.now()
    await add(store, { id: 'a' }, { id: 'b', kind: 'l' }, { id: 'c', kind: 'm', runAt: now + 0.5 })
    assertFields(await get(store, 'c'), { nextAttemptAt: now + 1 })
    const [a, b] = (await claim(store, { kinds: ['k', 'l', 'm'] })).tasks
    assert.ok(a && b)
    const verdict = { class: 'rate_limited', code: '429', retryAfterMs: 1.6 } as const
    const times = { startedAt: now + 0.4, endedAt: now + 0.6 }
    await settle(store, a, { type: 'retry', delayMs: 100.2, isBackoff: true }, times)
    await settle(store, b, { type: 'deferred', delayMs: 1.6 }, { verdict })
    assertFields(await get(store, 'a'), { nextAttemptAt: now + 101, previousDelayMs: 100 })
    assertFields((await store.ledger('a'))[0], { delayMs: 100, startedAt: now, endedAt: now + 1 })
    assertFields(await get(store, 'b'), { nextAttemptAt: now + 2 })
    assertFields((await store.ledger('b'))[0], { delayMs: 2, verdict: { ...verdict, retryAfterMs: 2 } })
    assert.equal((await laneOf(store, { kind: 'l' })).heldUntil, now + 2)
    await advance(100)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.deepEqual(await claimIds(store), ['a'])
  },

  async 'an empty batch does nothing'(store) {
    assert.deepEqual(await store.settle([]), [])
  },
}
