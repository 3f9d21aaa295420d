import assert from 'node:assert/strict'
import type { NewOperation, OperationRecord, StoreContract } from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  assertSame,
  claimIds,
  claimOne,
  get,
  kill,
  laneOf,
  loseTwice,
  type StoreBehaviours,
  settle,
  settleUncounted,
  start,
} from './harness.js'
import { ANN, move, take } from './operation-harness.js'

type Arranging = Pick<NewOperation, 'act' | 'settings'>

/** Changes waiting tasks by an operation, in one step. Returns it, and the ids that it changed. */
async function arrange(
  store: StoreContract,
  wanted: Arranging,
  ids: readonly string[],
): Promise<{ readonly operation: OperationRecord; readonly moved: readonly string[] }> {
  const created = await store.operations.create({ set: { ids }, by: ANN, ...wanted })
  const token = await take(store, created.id)
  const { moved } = await move(store, created, token, ids)
  await store.operations.change(created.id, 'stop', ANN)
  const operation = await store.operations.get(created.id)
  assert.ok(operation !== undefined)
  return { operation, moved }
}

const PROMOTE: Arranging = { act: 'promote' }
const rescheduleTo = (runAt: number): Arranging => ({ act: 'reschedule', settings: { runAt } })
const prioritizeTo = (priority: number): Arranging => ({ act: 'prioritize', settings: { priority } })

async function undo(store: StoreContract, id: string): Promise<number> {
  let undone = 0
  let after: string | undefined
  do {
    const page = await store.operations.undo(id, { limit: 2, ...(after !== undefined && { after }) }, ANN)
    undone += page.undone
    after = page.next
  } while (after !== undefined)
  return undone
}

/** The ids of all members, page by page, with where they stand. */
async function membersOf(store: StoreContract, id: string, limit = 2): Promise<Record<string, string | undefined>> {
  const found: Record<string, string | undefined> = {}
  let after: string | undefined
  do {
    const page = await store.operations.members(id, { limit, ...(after !== undefined && { after }) })
    for (const { id, standing } of page.items) found[id] = standing
    after = page.next
  } while (after !== undefined)
  return found
}

export const ARRANGE: StoreBehaviours = {
  async 'a promoted task is due at once, and its time to live begins'(store, advance) {
    const now = await store.now()
    await add(store, { id: 'a', runAt: now + 60_000 }, { id: 'b', runAt: now + 60_000 })
    await advance(10)
    const { moved } = await arrange(store, PROMOTE, ['a', 'absent'])
    assert.deepEqual(moved, ['a'])
    assertFields(await get(store, 'a'), {
      status: 'waiting',
      nextAttemptAt: now + 10,
      startedAt: now + 10,
      changedAt: now,
    })
    assert.deepEqual(await claimIds(store), ['a'])
    assertFields(await get(store, 'b'), { nextAttemptAt: now + 60_000, startedAt: now + 60_000 })
    const [row] = await store.ledger('a')
    assertFields(row, { outcome: 'promoted', attempt: 0, worker: 'ann', reason: ANN.why, endedAt: now + 10 })
    assertFields(row?.before, { nextAttemptAt: now + 60_000, startedAt: now + 60_000, priority: 0 })
  },

  async 'a promoted retry keeps its counters and its start'(store, advance) {
    const task = await start(store, { id: 'a' })
    const { startedAt } = await get(store, 'a')
    await settle(store, task, { type: 'retry', delayMs: 60_000, isBackoff: true })
    await advance(5)
    await arrange(store, PROMOTE, ['a'])
    assertFields(await get(store, 'a'), { attempts: 1, startedAt, previousDelayMs: 60_000 })
    assert.deepEqual(await claimIds(store), ['a'])
  },

  async 'a rescheduled task waits for its new time, be it ready or scheduled'(store, advance) {
    const now = await store.now()
    await add(store, { id: 'ready' }, { id: 'scheduled', runAt: now + 100 }, { id: 'other' })
    const { moved } = await arrange(store, rescheduleTo(now + 1000), ['ready', 'scheduled'])
    assert.deepEqual(moved, ['ready', 'scheduled'])
    assert.deepEqual(await claimIds(store), ['other'])
    await advance(999)
    assert.deepEqual(await claimIds(store), [])
    assertFields(await get(store, 'ready'), { nextAttemptAt: now + 1000, startedAt: now + 1000 })
    await advance(1)
    assert.deepEqual((await claimIds(store)).sort(), ['ready', 'scheduled'])
  },

  async 'a time that is over makes a task due'(store) {
    const now = await store.now()
    await add(store, { id: 'a', runAt: now + 100 })
    await arrange(store, rescheduleTo(now - 100), ['a'])
    assertFields(await get(store, 'a'), { nextAttemptAt: now - 100, startedAt: now })
    assert.deepEqual(await claimIds(store), ['a'])
  },

  async 'a task with another priority has another place, whether it is due or not'(store, advance) {
    const now = await store.now()
    await add(store, { id: 'a' }, { id: 'b' }, { id: 'c', runAt: now + 10 }, { id: 'd', runAt: now + 10 })
    await arrange(store, prioritizeTo(5), ['b', 'd'])
    await arrange(store, prioritizeTo(-1.5), ['a'])
    assertFields(await get(store, 'b'), { priority: 5, nextAttemptAt: now })
    await advance(10)
    assert.deepEqual(await claimIds(store, { limit: 4 }), ['b', 'd', 'c', 'a'])
  },

  async 'a task that runs, has ended or is so already is left alone, and counted'(store) {
    const running = await start(store, { id: 'running' })
    await kill(store, await start(store, { id: 'dead' }))
    await add(store, { id: 'due' }, { id: 'urgent', priority: 3 })
    const promoted = await arrange(store, PROMOTE, ['running', 'dead', 'due', 'absent'])
    assert.deepEqual(promoted.moved, [])
    assert.deepEqual(promoted.operation.progress.refused, { not_changed: 4 })
    const later = (await store.now()) + 1000
    assert.deepEqual((await arrange(store, rescheduleTo(later), ['running', 'dead'])).moved, [])
    assert.deepEqual((await arrange(store, prioritizeTo(3), ['running', 'urgent', 'due'])).moved, ['due'])
    assert.deepEqual(await store.ledger('running'), [])
    await settle(store, running, { type: 'succeeded', result: '1' })
    assertFields(await get(store, 'running'), { status: 'succeeded', priority: 0 })
  },

  async 'nothing changes the order of an ordered lane, and its head can be made due'(store) {
    const now = await store.now()
    await store.limit({ kind: 'k' }, { isOrdered: true })
    const head = await start(store, { id: 'a', key: 't' })
    await add(store, { id: 'b', key: 't' }, { id: 'c', key: 't', runAt: now + 500 })
    await settle(store, head, { type: 'retry', delayMs: 60_000, isBackoff: true })
    assert.deepEqual((await arrange(store, prioritizeTo(9), ['a', 'b', 'c'])).moved, [])
    assert.deepEqual((await arrange(store, rescheduleTo(now + 100), ['a', 'b', 'c'])).moved, [])
    assert.deepEqual(await claimIds(store), [])
    const { operation, moved } = await arrange(store, PROMOTE, ['c', 'a'])
    assert.deepEqual(moved, ['c', 'a'])
    assert.equal((await laneOf(store, { key: 't' })).heldUntil, undefined)
    // Its order stays as it is, so the lane is not held again.
    assert.equal(await undo(store, operation.id), 0)
    for (const id of ['a', 'b', 'c']) {
      const task = await claimOne(store)
      assert.equal(task.id, id)
      await settle(store, task, { type: 'succeeded' })
    }
  },

  async 'the hold of a rate limit lasts in an ordered lane'(store) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    const head = await start(store, { id: 'a', key: 't' })
    await settle(store, head, { type: 'deferred', delayMs: 60_000 })
    const { heldUntil } = await laneOf(store, { key: 't' })
    assert.deepEqual((await arrange(store, PROMOTE, ['a'])).moved, [])
    assert.equal((await laneOf(store, { key: 't' })).heldUntil, heldUntil)
  },

  async 'a retry under a budget stays under it'(store, advance) {
    await store.budgets.set({ kind: 'k' }, { retries: { share: 0.1, windowMs: 60_000, floor: 0.02 } })
    const tasks = [await start(store, { id: 'a' }), await start(store, { id: 'b' })]
    for (const task of tasks) await settle(store, task, { type: 'retry', delayMs: 50_000, isBackoff: true })
    await advance(1)
    const { moved } = await arrange(store, PROMOTE, ['a', 'b'])
    assert.deepEqual(moved, ['a', 'b'])
    assertFields(await get(store, 'a'), { isBudgeted: true, nextAttemptAt: await store.now() })
    const started = await claimIds(store)
    assert.ok(started.length < 2, 'the budget does not let both through')
  },

  async 'a task that must run alone does so after a promotion'(store, advance) {
    await addOne(store, { id: 'a' })
    await loseTwice(store, advance)
    await arrange(store, rescheduleTo((await store.now()) + 1000), ['a'])
    await arrange(store, PROMOTE, ['a'])
    await add(store, { id: 'b' })
    assert.deepEqual(await claimIds(store), ['b'])
    assert.deepEqual(await claimIds(store, { worker: 'w2', isIdle: true }), ['a'])
  },

  async 'a filter has the tasks that have not ended, in the order of their ids, and where they stand'(store, advance) {
    const now = await store.now()
    await kill(store, await start(store, { id: 'b' }))
    await start(store, { id: 'e' })
    await add(store, { id: 'd' }, { id: 'c', runAt: now + 100 }, { id: 'a', key: 't' }, { id: 'f', kind: 'l' })
    const set = { filter: { kind: 'k' }, until: now }
    const { id } = await store.operations.create({ act: 'promote', set, by: ANN })
    await advance(1)
    await add(store, { id: 'late' })
    assert.deepEqual(await membersOf(store, id), { a: 'due', c: 'not_due', d: 'due', e: 'running' })
    const rows = await store.operations.survey('promote', set)
    const counts = Object.fromEntries(rows.map(({ standing, count }) => [standing, count]))
    assert.deepEqual(counts, { due: 2, not_due: 1, running: 1 })
    const named = await store.operations.survey('promote', { ids: ['b', 'c', 'e'] })
    assertSame(
      named.map(({ standing }) => standing ?? ''),
      ['not_due', 'running'],
    )
    assertFields(named[0], { isOrdered: false, isPaused: false })
  },

  async 'an undo gives tasks back their time and priority, but not those that have run since'(store, advance) {
    const now = await store.now()
    const runAt = now + 60_000
    await add(store, ...['a', 'b', 'c', 'd', 'e'].map(id => ({ id, runAt })))
    await advance(1)
    const { operation } = await arrange(store, PROMOTE, ['a', 'b', 'c', 'd', 'e'])
    await advance(1)
    // One has run, one was handed back, one was changed by another operation.
    const [one, two] = [await claimOne(store, { limit: 1 }), await claimOne(store, { limit: 1 })]
    await settleUncounted(store, one, { type: 'released' })
    await settle(store, two, { type: 'retry', delayMs: 0, isBackoff: false })
    const other = await arrange(store, prioritizeTo(4), ['c'])
    await advance(1)
    assert.equal(await undo(store, operation.id), 2)
    assertFields(await store.operations.get(operation.id), { undone: 2 })
    for (const id of ['d', 'e']) {
      assertFields(await get(store, id), { nextAttemptAt: runAt, startedAt: runAt, priority: 0 })
      assert.deepEqual(
        (await store.ledger(id)).map(({ outcome }) => outcome),
        ['promoted', 'undone'],
      )
    }
    assert.equal(await undo(store, operation.id), 0)
    assertFields(await get(store, 'c'), { priority: 4, nextAttemptAt: now + 1 })
    assert.equal(await undo(store, other.operation.id), 1)
    assertFields(await get(store, 'c'), { priority: 0, nextAttemptAt: now + 1 })
  },

  async 'a redrive that was promoted since stays, and so does the tally of its operation'(store, advance) {
    await kill(store, await start(store, { id: 'a' }))
    await advance(1)
    const redrive = await arrange(store, { act: 'redrive' }, ['a'])
    const task = await claimOne(store)
    await settle(store, task, { type: 'retry', delayMs: 60_000, isBackoff: true })
    await advance(1)
    await arrange(store, PROMOTE, ['a'])
    assert.equal((await store.operations.undo(redrive.operation.id, { limit: 9 }, ANN)).undone, 0)
    assertFields(await get(store, 'a'), { operation: redrive.operation.id })
    await settle(store, await claimOne(store), { type: 'succeeded', result: '1' })
    assertFields((await store.operations.get(redrive.operation.id))?.tally, { failed: 1, succeeded: 1 })
  },

  async 'an operation that lacks its time or its priority is refused, and so is one that needs none'(store) {
    const set = { ids: ['a'] }
    const create = (operation: Arranging) => store.operations.create({ set, by: ANN, ...operation })
    await assert.rejects(create({ act: 'reschedule' }), /'runAt' is missing/)
    await assert.rejects(create({ act: 'reschedule', settings: { runAt: 1e300 } }), /'runAt' must be a number/)
    await assert.rejects(create({ act: 'prioritize' }), /'priority' must be a number/)
    await assert.rejects(create({ act: 'prioritize', settings: { priority: Number.NaN } }), /'priority' must be/)
    await assert.rejects(create({ act: 'promote', settings: { runAt: 1 } }), /Only a reschedule can have a time/)
    await assert.rejects(create({ act: 'redrive', settings: { priority: 1 } }), /Only a prioritize can have a priority/)
  },
}
