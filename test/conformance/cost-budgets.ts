import assert from 'node:assert/strict'
import type { BudgetScope, ClaimedTask, Cost, CostBudget, Outcome, StoreContract } from '../../src/store/internal.js'
import { add, claim, entry, LEASE_MS, loseTwice, type StoreBehaviours, settleUncounted } from './harness.js'

const HOUR_MS = 3_600_000
const SUCCEEDED: Outcome = { type: 'succeeded' }
const BY = { who: 'ada', why: 'the invoice' }

/** Budgets that hold a kind before it has spent too much. */
export const COST_BUDGETS: StoreBehaviours = {
  async 'one task starts at a time until one has told what it spent, then as many as there is room for'(store) {
    await limit(store, { tokens: 100 })
    await add(store, ...Array.from({ length: 20 }, () => ({})))
    const [first] = await started(store, 1)
    await started(store, 0)
    await spend(store, first, { tokens: 10 })
    const [second, third] = await started(store, 2, { limit: 2 })
    const others = await started(store, 7)
    await started(store, 0)
    await spend(store, second, { tokens: 10 })
    await started(store, 0)
    // It spent less than the mean, so that there is room for more, and the next one more, so that there is not.
    await spend(store, third, { tokens: 1 })
    await spend(store, others[0], { tokens: 1 })
    const more = await started(store, 8)
    for (const task of [...others.slice(1), ...more]) await spend(store, task, { tokens: 5 })
    assert.ok((await spentBy(store)) <= 100)
  },

  async 'a kind that has spent its budget waits for the next window, and goes on with the mean that is known'(
    store,
    advance,
  ) {
    const end = await nextWindow(store, advance)
    await limit(store, { tokens: 100 })
    await add(store, ...Array.from({ length: 10 }, () => ({})))
    const [first] = await started(store, 1)
    await spend(store, first, { tokens: 40 })
    const tasks = await started(store, 1)
    await spend(store, tasks[0], { tokens: 40 })
    const { nextAt } = await claim(store)
    assert.equal(nextAt, end)
    const record = await recordOf(store)
    assert.deepEqual(
      { left: record.left, isSpent: record.isSpent, until: record.until, used: record.used },
      { left: 0, isSpent: true, until: end, used: { tokens: 80 } },
    )
    await advance(HOUR_MS)
    assert.deepEqual((await recordOf(store)).used, {})
    const [next] = await started(store, 2)
    await spend(store, next, { tokens: 40 })
    await started(store, 0)
  },

  async 'the bucket with the least room decides, and one that nobody reports has room'(store) {
    await limit(store, { tokens: 1000, dollars: 10, pages: 1 })
    await add(store, ...Array.from({ length: 10 }, () => ({})))
    const [first] = await started(store, 1)
    await spend(store, first, { tokens: 10, dollars: 3, other: 5000 })
    await started(store, 2)
  },

  async 'attempts count whatever becomes of them, and those that tell nothing do not'(store) {
    await limit(store, { tokens: 100 })
    await add(store, ...Array.from({ length: 10 }, () => ({})))
    const [silent] = await started(store, 1)
    await store.settle([{ id: silent.id, token: silent.token, outcome: SUCCEEDED, attempt: entry(silent) }])
    const [dead] = await started(store, 1)
    await spend(store, dead, { tokens: 30 }, { type: 'dead', reason: 'final_error' })
    const [released, other] = await started(store, 2)
    await spend(store, released, { tokens: 30 }, { type: 'released' })
    await settleUncounted(store, other, { type: 'released' })
    await started(store, 1)
  },

  async 'only the kind and category of the budget are held'(store) {
    await limit(store, { tokens: 10 }, { kind: 'k', category: 'llm' })
    await limit(store, { tokens: 50 }, { kind: 'k' })
    await add(store, { category: 'llm' }, { category: 'llm' }, { category: 'x' }, { category: 'x' }, { kind: 'other' })
    const [first] = await started(store, 1, { kinds: ['k'] })
    await spend(store, first, { tokens: 10 })
    const kinds = (await claim(store, { kinds: ['k', 'other'] })).tasks.map(
      ({ kind, category }) => `${kind} ${category}`,
    )
    assert.deepEqual(kinds.sort(), ['k x', 'k x', 'other '])
    await started(store, 0)
  },

  async 'a higher amount counts what was spent, and lifted it holds nothing'(store) {
    await limit(store, { tokens: 10 })
    await add(store, ...Array.from({ length: 5 }, () => ({})))
    const [first] = await started(store, 1)
    await spend(store, first, { tokens: 10 })
    await started(store, 0)
    await limit(store, { tokens: 20 })
    const [second] = await started(store, 1)
    await spend(store, second, { tokens: 10 })
    await started(store, 0)
    assert.equal(await store.budgets.lift({ kind: 'k' }, BY), true)
    await started(store, 3)
  },

  async 'tasks that it holds are counted as held'(store) {
    await limit(store, { tokens: 10 })
    await add(store, {}, {}, {})
    const waiting = async () => {
      const [figures] = (await store.stats()).kinds
      return { held: figures?.held, ready: figures?.ready }
    }
    assert.deepEqual(await waiting(), { held: 0, ready: 3 })
    const [first] = await started(store, 1)
    await spend(store, first, { tokens: 10 })
    assert.deepEqual(await waiting(), { held: 2, ready: 0 })
  },

  async 'items are not kept, so that each starts under the budget'(store) {
    await limit(store, { tokens: 100 })
    await add(store, { category: 'fetch', key: 'r' })
    const [item] = await started(store, 1)
    const outcome = { type: 'advanced', to: 'parse', value: '1', keep: true } as const
    const advance = { id: item.id, token: item.token, outcome, attempt: entry(item), used: { tokens: 30 } }
    assert.deepEqual(await store.settle([advance]), [{ result: 'settled' }])
    await started(store, 1)
  },

  async 'a task that must run alone waits too'(store, advance) {
    await add(store, {})
    await loseTwice(store, advance)
    await settleAll(store, await started(store, 1, { isIdle: true }), { type: 'retry', delayMs: 0, isBackoff: false })
    await limit(store, { tokens: 10 })
    const [alone] = await started(store, 1, { isIdle: true })
    await spend(store, alone, { tokens: 10 }, { type: 'released' })
    await started(store, 0, { isIdle: true })
    assert.equal((await claim(store, { isIdle: true })).isAloneWaiting, false)
  },

  async 'windows of another length begin afresh, and other budgets of the scope do not touch it'(store) {
    await limit(store, { tokens: 10 })
    await add(store, {}, {})
    const [first] = await started(store, 1)
    await spend(store, first, { tokens: 10 })
    const cost = { amounts: { tokens: 10 }, windowMs: HOUR_MS }
    await store.budgets.set({ kind: 'k' }, { cost, failures: { share: 0.5 } })
    await started(store, 0)
    await store.budgets.set({ kind: 'k' }, { cost: { ...cost, windowMs: 2 * HOUR_MS } })
    await started(store, 1)
  },

  async 'one without amounts, or with impossible ones, is refused'(store) {
    const set = (cost: CostBudget) => store.budgets.set({ kind: 'k' }, { cost })
    await assert.rejects(set({ amounts: {} }), /'cost' of a budget needs amounts from .* got 'none'/)
    await assert.rejects(set({ amounts: { tokens: 0 } }), /needs amounts from/)
    await assert.rejects(set({ amounts: { tokens: -1 } }), /must be a number, 0 or more/)
    await assert.rejects(set({ amounts: { tokens: 1 }, windowMs: 10 }), /cost.windowMs/)
    assert.deepEqual(await store.budgets.list(), [])
  },
}

async function limit(store: StoreContract, amounts: Cost, scope: BudgetScope = { kind: 'k' }): Promise<void> {
  await store.budgets.set(scope, { cost: { amounts, windowMs: HOUR_MS } }, BY)
}

/** Claims as many as there are, and expects so many. */
async function started(
  store: StoreContract,
  count: number,
  request: Parameters<typeof claim>[1] = {},
): Promise<[ClaimedTask, ClaimedTask, ...ClaimedTask[]]> {
  await store.heartbeat({ worker: 'w1', leaseMs: 100 * HOUR_MS })
  const { tasks } = await claim(store, { leaseMs: LEASE_MS, ...request })
  assert.equal(tasks.length, count, `${tasks.length} tasks started where ${count} should`)
  return tasks as [ClaimedTask, ClaimedTask, ...ClaimedTask[]]
}

async function spend(
  store: StoreContract,
  task: ClaimedTask | undefined,
  used: Cost,
  outcome: Outcome = SUCCEEDED,
): Promise<void> {
  assert.ok(task !== undefined)
  const attempt = outcome.type === 'released' ? {} : { attempt: entry(task) }
  const [settled] = await store.settle([{ id: task.id, token: task.token, outcome, ...attempt, used }])
  assert.equal(settled?.result, 'settled')
}

async function settleAll(store: StoreContract, tasks: readonly ClaimedTask[], outcome: Outcome): Promise<void> {
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome })))
}

/** Lets time pass up to the start of a window. Returns its end. */
async function nextWindow(store: StoreContract, advance: (ms: number) => Promise<void>): Promise<number> {
  const now = await store.now()
  await advance(HOUR_MS - (now % HOUR_MS))
  return now - (now % HOUR_MS) + 2 * HOUR_MS
}

async function recordOf(store: StoreContract) {
  const [budget] = await store.budgets.list()
  assert.ok(budget?.cost !== undefined)
  return budget.cost
}

async function spentBy(store: StoreContract): Promise<number> {
  return (await recordOf(store)).used.tokens ?? 0
}
