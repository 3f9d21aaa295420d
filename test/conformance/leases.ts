import assert from 'node:assert/strict'
import type { Outcome } from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  assertSame,
  claim,
  claimIds,
  claimOne,
  get,
  LEASE_MS,
  lose,
  loseTwice,
  lostGroupOf,
  type StoreBehaviours,
  settle,
  settleUncounted,
  start,
} from './harness.js'

export const LEASES: StoreBehaviours = {
  async 'a heartbeat keeps the lease, and so does a claim'(store, advance) {
    const task = await start(store)
    for (let beat = 0; beat < 3; beat++) {
      await advance(LEASE_MS - 1)
      assert.deepEqual(await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS }), { cancelled: [], rescued: 0 })
      await advance(LEASE_MS - 1)
      await claim(store)
      assert.equal((await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })).rescued, 0)
    }
    assert.equal(await settle(store, task, { type: 'succeeded' }), 'settled')
  },

  async 'a lease has run out exactly at its end'(store, advance) {
    await start(store)
    await advance(LEASE_MS - 1)
    assert.equal((await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })).rescued, 0)
    await advance(1)
    assert.equal((await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })).rescued, 1)
  },

  async 'the tasks of a worker that died are rescued once, each with a lost attempt on the ledger'(store, advance) {
    const started = await store.now()
    await add(store, { id: 'a' }, { id: 'b' }, { id: 'c' })
    await claim(store, { limit: 2 })
    await advance(LEASE_MS + 5)
    assert.equal((await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })).rescued, 2)
    assert.equal((await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })).rescued, 0)
    const now = await store.now()
    for (const id of ['a', 'b']) {
      const expected = { status: 'waiting', attempts: 0, losses: 1, deferrals: 0, nextAttemptAt: now } as const
      assertFields(await get(store, id), { ...expected, changedAt: now })
      const rows = await store.ledger(id)
      assert.equal(rows.length, 1)
      assertFields(rows[0], {
        sequence: 1,
        attempt: 1,
        startedAt: started,
        endedAt: now,
        worker: 'w1',
        outcome: 'lost',
        delayMs: undefined,
        reason: undefined,
      })
    }
    assertFields(await get(store, 'c'), { attempts: 0, losses: 0 })
    assert.deepEqual(await store.ledger('c'), [])
  },

  async 'only who died loses: the tasks of live workers stay theirs'(store, advance) {
    await add(store, { id: 'a' }, { id: 'b' })
    await claim(store, { worker: 'dies', limit: 1 })
    await advance(LEASE_MS / 2)
    await claim(store, { worker: 'lives', limit: 1 })
    await advance(LEASE_MS / 2)
    assert.equal((await store.heartbeat({ worker: 'w3', leaseMs: LEASE_MS })).rescued, 1)
    assert.equal((await get(store, 'a')).status, 'waiting')
    assert.equal((await get(store, 'b')).status, 'running')
  },

  async 'of 10 heartbeats at once one rescues'(store, advance) {
    const { id } = await start(store)
    await advance(LEASE_MS)
    const beats = await Promise.all(
      Array.from({ length: 10 }, (_, index) => store.heartbeat({ worker: `h${index}`, leaseMs: LEASE_MS })),
    )
    assert.equal(
      beats.reduce((sum, { rescued }) => sum + rescued, 0),
      1,
    )
    assert.equal((await store.ledger(id)).length, 1)
  },

  async 'a worker whose lease ran out unnoticed keeps its tasks: it may settle, or renew'(store, advance) {
    const task = await start(store)
    await advance(2 * LEASE_MS)
    assert.equal((await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS })).rescued, 0)
    assert.equal((await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })).rescued, 0)
    await advance(2 * LEASE_MS)
    assert.equal(await settle(store, task, { type: 'succeeded' }), 'settled')
  },

  async 'a late settlement of a worker that died is stale'(store, advance) {
    const task = await start(store)
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })
    assert.equal(await settle(store, task, { type: 'succeeded' }), 'stale')
    await claimOne(store, { worker: 'w2', isIdle: true })
    assert.equal(await settle(store, task, { type: 'succeeded' }), 'stale')
    assertFields(await get(store, task.id), { status: 'running', attempts: 0, losses: 1 })
  },

  async 'a lost task is undecided until a decision is settled: a retry, which costs no attempt'(store, advance) {
    const id = await addOne(store)
    await lose(store, advance)
    const task = await claimOne(store, { isIdle: true })
    assertFields(task, { id, isUndecided: true, attempts: 0, losses: 1 })
    assert.equal(await settleUncounted(store, task, { type: 'retry', delayMs: 500, isBackoff: true }), 'settled')
    const expected = { status: 'waiting', attempts: 0, losses: 1, previousDelayMs: 500 } as const
    assertFields(await get(store, id), { ...expected, nextAttemptAt: (await store.now()) + 500 })
    const rows = await store.ledger(id)
    assert.equal(rows.length, 1)
    assertFields(rows[0], { outcome: 'lost', attempt: 1, delayMs: 500, reason: undefined })
    await advance(500)
    assertFields(await claimOne(store, { isIdle: true }), { id, isUndecided: false, attempts: 0, losses: 1 })
  },

  async 'a lost task that is given up is dead, without another row'(store, advance) {
    const id = await addOne(store)
    await lose(store, advance)
    const task = await claimOne(store, { isIdle: true })
    assert.equal(await settleUncounted(store, task, { type: 'dead', reason: 'losses_exhausted' }), 'settled')
    assertFields(await get(store, id), { status: 'dead', reason: 'losses_exhausted', attempts: 0, losses: 1 })
    const rows = await store.ledger(id)
    assert.equal(rows.length, 1)
    assertFields(rows[0], { outcome: 'lost', reason: 'losses_exhausted', delayMs: undefined })
  },

  async 'what the decision on a lost attempt was made of is told to its row'(store, advance) {
    const id = await addOne(store)
    await lose(store, advance)
    const [before] = await store.ledger(id)
    assert.ok(before)
    const told = {
      verdict: { class: 'retryable', code: 'worker_lost' },
      error: 'the worker died',
      random: 0.25,
      policy: 'hash',
    } as const
    const task = await claimOne(store, { isIdle: true })
    await settle(store, task, { type: 'retry', delayMs: 500, isBackoff: true }, { ...told, worker: 'w9', attempt: 7 })
    const rows = await store.ledger(id)
    assert.equal(rows.length, 1)
    const { attempt, startedAt, endedAt, worker } = before
    assertFields(rows[0], { attempt, startedAt, endedAt, worker, ...told, outcome: 'lost', delayMs: 500 })
    const error = { errorClass: 'retryable', errorCode: 'worker_lost', errorMessage: 'the worker died' } as const
    assertFields(await get(store, id), { attempts: 0, losses: 1, ...error })
  },

  async 'only a retry or a dead letter decides on a lost attempt: any other outcome is an attempt of its own'(
    store,
    advance,
  ) {
    const outcomes: Outcome[] = [
      { type: 'succeeded', result: '1' },
      { type: 'skipped', reason: 'r' },
      { type: 'deferred', delayMs: 0 },
      { type: 'later', delayMs: 0 },
      { type: 'cancelled' },
    ]
    for (const outcome of outcomes) {
      const id = await addOne(store, { id: outcome.type })
      await lose(store, advance)
      const task = await claimOne(store, { isIdle: true })
      assert.equal(task.isUndecided, true)
      await settle(store, task, outcome, { policy: 'hash' })
      const rows = await store.ledger(id)
      assert.deepEqual(
        rows.map(row => [row.outcome, row.policy]),
        [
          ['lost', undefined],
          [outcome.type, 'hash'],
        ],
      )
      assertFields(await get(store, id), { deferrals: outcome.type === 'deferred' ? 1 : 0 })
      await store.cancel([id])
    }
    assert.deepEqual(await claimIds(store, { isIdle: true }), [])
  },

  async 'an attempt that is settled as lost counts as a loss, as if its worker had died'(store) {
    const id = await addOne(store)
    const group = lostGroupOf('k')
    for (let losses = 1; losses <= 2; losses++) {
      const task = await claimOne(store, { isIdle: true })
      await settle(store, task, { type: 'lost' }, { error: 'blocked', group })
      const now = await store.now()
      const expected = { status: 'waiting', attempts: 0, losses, deferrals: 0, nextAttemptAt: now } as const
      assertFields(await get(store, id), { ...expected, group: 'lost:k', changedAt: now })
      const undecided = await claimOne(store, { isIdle: true })
      assertFields(undecided, { isUndecided: true, losses })
      assert.equal(await settleUncounted(store, undecided, { type: 'retry', delayMs: 0, isBackoff: false }), 'settled')
      const rows = await store.ledger(id)
      assert.equal(rows.length, losses)
      assertFields(rows.at(-1), { outcome: 'lost', attempt: 1, worker: 'w1', group: 'lost:k', delayMs: 0 })
    }
    assert.deepEqual(await claimIds(store, { isIdle: false }), [], 'it runs alone')
    const cancelled = await claimOne(store, { isIdle: true })
    await store.cancel([id])
    await settle(store, cancelled, { type: 'lost' }, { error: 'blocked', group })
    assertFields(await get(store, id), { status: 'cancelled', losses: 3 })
  },

  async 'an undecided task whose worker dies too goes back as it was, uncounted'(store, advance) {
    const id = await addOne(store)
    await lose(store, advance)
    await lose(store, advance)
    assertFields(await get(store, id), { status: 'waiting', attempts: 0, losses: 1 })
    assert.equal((await store.ledger(id)).length, 1)
    const task = await claimOne(store, { isIdle: true })
    assert.equal(task.isUndecided, true)
    await settleUncounted(store, task, { type: 'released' })
    assert.equal((await claimOne(store, { isIdle: true })).isUndecided, true)
  },

  async 'a loss costs no attempt: its row and the next attempt have the same number'(store, advance) {
    const task = await start(store)
    await settle(store, task, { type: 'retry', delayMs: 0, isBackoff: true })
    for (let loss = 1; loss <= 3; loss++) {
      await lose(store, advance)
      assertFields(await get(store, task.id), { attempts: 1, losses: loss })
      const undecided = await claimOne(store, { isIdle: true })
      await settleUncounted(store, undecided, { type: 'retry', delayMs: loss, isBackoff: false })
      await advance(loss)
    }
    await settle(store, await claimOne(store, { isIdle: true }), { type: 'retry', delayMs: 0, isBackoff: true })
    assertFields(await get(store, task.id), { attempts: 2, losses: 3 })
    const rows = await store.ledger(task.id)
    assert.deepEqual(
      rows.map(({ attempt, outcome, delayMs }) => [attempt, outcome, delayMs]),
      [
        [1, 'retry', 0],
        [2, 'lost', 1],
        [2, 'lost', 2],
        [2, 'lost', 3],
        [2, 'retry', 0],
      ],
    )
  },

  async 'a task with one loss runs beside others, in its order'(store, advance) {
    await add(store, { id: 'a' }, { id: 'c' })
    await lose(store, advance)
    await add(store, { id: 'b', submittedAt: 0 })
    const { tasks, isAloneWaiting } = await claim(store, { isIdle: true })
    assert.deepEqual(
      tasks.map(({ id, isUndecided }) => [id, isUndecided]),
      [
        ['b', false],
        ['a', true],
        ['c', true],
      ],
    )
    assert.equal(isAloneWaiting, false)
    for (const task of tasks) await settleUncounted(store, task, { type: 'retry', delayMs: 0, isBackoff: false })
    assert.deepEqual(await claimIds(store), ['b', 'a', 'c'], 'a busy worker gets them too')
  },

  async 'a task with two losses is not given to a busy worker, which is told that it waits'(store, advance) {
    const id = await addOne(store)
    await loseTwice(store, advance)
    await add(store, { id: 'other' })
    const busy = await claim(store, { worker: 'w2', isIdle: false })
    assert.deepEqual(
      busy.tasks.map(task => task.id),
      ['other'],
    )
    assert.equal(busy.isAloneWaiting, true)
    assert.equal((await claim(store, { worker: 'w2', isIdle: false, kinds: ['l'] })).isAloneWaiting, false)
    assert.deepEqual(await claimIds(store, { worker: 'w3', isIdle: true }), [id])
    assert.equal((await claim(store, { worker: 'w2', isIdle: false })).isAloneWaiting, false)
  },

  async 'an idle worker gets a task with two losses alone and before all others, as long as it has not ended'(
    store,
    advance,
  ) {
    const id = await addOne(store)
    await loseTwice(store, advance)
    await add(store, { id: 'other', priority: 9 }, { id: 'another' })
    const undecided = await claimOne(store, { isIdle: true })
    assert.equal(undecided.id, id)
    await settleUncounted(store, undecided, { type: 'retry', delayMs: 10, isBackoff: true })
    assert.equal((await claim(store, { limit: 0 })).isAloneWaiting, false, 'it is not due')
    await advance(10)
    assert.equal((await claim(store, { limit: 0 })).isAloneWaiting, true)
    const decided = await claimOne(store, { isIdle: true })
    assert.equal(decided.id, id)
    await settle(store, decided, { type: 'retry', delayMs: 0, isBackoff: true })
    const again = await claimOne(store, { isIdle: true })
    assertFields(again, { id, attempts: 1, losses: 2, isUndecided: false })
    await settle(store, again, { type: 'succeeded' })
    assert.deepEqual(await claimIds(store, { isIdle: true }), ['other', 'another'])
  },

  async 'tasks with two losses are handed out in order, one to each claim'(store, advance) {
    await add(store, { id: 'b' }, { id: 'a' }, { id: 'c', priority: 1 })
    await loseTwice(store, advance)
    const claimed: string[] = []
    for (let turn = 0; turn < 3; turn++) claimed.push((await claimOne(store, { isIdle: true })).id)
    assert.deepEqual(claimed, ['c', 'a', 'b'])
  },

  async 'a task with two losses in a paused or held lane does not wait for an idle worker'(store, advance) {
    await addOne(store, { id: 'a', key: 't' })
    await loseTwice(store, advance)
    await store.pause({ kind: 'k' }, { isPaused: true })
    assertFields(await claim(store, { isIdle: true }), { tasks: [], isAloneWaiting: false })
    await store.pause({ kind: 'k' }, { isPaused: false })

    const limited = await start(store, { id: 'b', key: 't' })
    await settle(store, limited, { type: 'deferred', delayMs: 100 })
    await store.cancel(['b'])
    const held = await claim(store, { isIdle: true })
    assertFields(held, { tasks: [], isAloneWaiting: false, nextAt: held.now + 100 })
    await advance(100)
    assert.equal((await claimOne(store, { isIdle: true })).id, 'a')
  },

  async 'a worker that leaves hands back what it has, uncounted'(store) {
    const ids = await add(store, {}, {})
    const [task] = (await claim(store)).tasks
    await store.leave('w1')
    for (const id of ids) {
      assertFields(await get(store, id), {
        status: 'waiting',
        attempts: 0,
        losses: 0,
        nextAttemptAt: await store.now(),
      })
      assert.deepEqual(await store.ledger(id), [])
    }
    if (task) assert.equal(await settle(store, task, { type: 'succeeded' }), 'stale')
    assertSame(await claimIds(store, { worker: 'w2' }), ids)
  },

  async 'leaving without having come, or twice, does nothing'(store, advance) {
    await store.leave('nobody')
    const task = await start(store)
    await store.leave('nobody')
    assert.equal((await get(store, task.id)).status, 'running')
    await store.leave('w1')
    await store.leave('w1')
    await advance(LEASE_MS)
    assert.equal((await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })).rescued, 0)
  },
}
