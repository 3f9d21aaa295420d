import assert from 'node:assert/strict'
import type { NewTask } from '../../src/store/index.js'
import type { ClaimedTask, Outcome, RetryRecord, RunSettings, StoreContract } from '../../src/store/internal.js'
import {
  add,
  addOne,
  claim,
  claimIds,
  claimOne,
  entry,
  kill,
  LEASE_MS,
  lose,
  type StoreBehaviours,
  settle,
  settleUncounted,
  TIMED_OUT,
} from './harness.js'

const RETRIES = { share: 0.2, windowMs: 60_000, floor: 1 }
const STEP_MS = 10_000
const FLOORS = [
  { kind: 'slow', windowMs: 20_000, floor: 0.3 },
  { kind: 'even', windowMs: 10_000, floor: 2.5 },
  { kind: 'fast', windowMs: 20_000, floor: 10 },
]
const AT_ONCE: Outcome = { type: 'retry', delayMs: 0, isBackoff: true }
const IN_A_SECOND: Outcome = { type: 'retry', delayMs: 1000, isBackoff: true }

type Advance = (ms: number) => Promise<void>

/** Retry budgets: a share of the first attempts comes back within a window, on all machines. */
export const RETRY_BUDGETS: StoreBehaviours = {
  async '1 000 that fail at once with 20 %: 200 come back in the window, the others at the floor'(store, advance) {
    await startOfStep(store, advance)
    await store.budgets.set({ kind: 'k' }, { retries: RETRIES })
    await addMany(store, 1000)
    await failAll(store, IN_A_SECOND)
    assert.deepEqual(await claimIds(store), [])
    await advance(1000)
    assert.equal((await claimIds(store, { limit: 1000 })).length, 200)
    const now = await store.now()
    const { first, retried, held, nextAt } = await retriesOf(store)
    assert.deepEqual([first, retried, held], [1000, 200, 800])
    assert.ok(nextAt !== undefined && nextAt > now && nextAt <= now + 70_000, `${nextAt} at ${now}`)
    const { tasks, nextAt: askAgainAt } = await claim(store)
    assert.deepEqual(tasks, [])
    assert.ok(askAgainAt !== undefined && askAgainAt > now && askAgainAt <= now + STEP_MS)

    for (let second = 1; second < 60; second++) {
      await advance(1000)
      assert.deepEqual(await claimIds(store), [], `${second} s later`)
    }
    await advance((nextAt ?? 0) - (await store.now()))
    for (let second = 0; second < 10; second++) {
      assert.equal((await claimIds(store)).length, 1, `${second} s after the window`)
      assert.deepEqual(await claimIds(store), [])
      await advance(1000)
    }
  },

  async 'the floor comes evenly, and keeps its bound in every window'(store, advance) {
    for (const { kind, windowMs, floor } of FLOORS) {
      await store.budgets.set({ kind }, { retries: { share: 0.001, windowMs, floor } })
      await addMany(store, 400, { kind })
      await fail(store, (await claim(store, { kinds: [kind], limit: 400 })).tasks)
      const passed: { readonly at: number; readonly count: number }[] = []
      const start = await store.now()
      for (let now = start; now < start + 2 * windowMs; now = await store.now()) {
        const { tasks, nextAt = now } = await claim(store, { kinds: [kind], limit: 400 })
        if (tasks.length > 0) passed.push({ at: now, count: tasks.length })
        assert.ok(tasks.length <= Math.ceil(floor), `${kind} let ${tasks.length} through at once`)
        await advance(Math.max(1, nextAt - now))
      }
      const within = (from: number, ms: number) =>
        passed.reduce((sum, { at, count }) => sum + (at >= from && at < from + ms ? count : 0), 0)
      const quota = (floor * windowMs) / 1000
      for (const { at } of passed)
        assert.ok(within(at, windowMs) <= quota, `${kind} let ${within(at, windowMs)} through`)
      const all = within(start, 2 * windowMs)
      assert.ok(all >= 0.98 * 2 * quota, `${kind} let ${all} of ${2 * quota} through`)
      await store.budgets.lift({ kind })
    }
  },

  async 'the floor begins anew with other settings'(store, advance) {
    await startOfStep(store, advance)
    await store.budgets.set({ kind: 'k' }, { retries: RETRIES })
    await store.budgets.set({ kind: 'l' }, { retries: { ...RETRIES, dependency: 'api' } })
    await addMany(store, 1000)
    await failAll(store, AT_ONCE)
    assert.equal((await claimIds(store, { limit: 1000 })).length, 200)
    await store.budgets.set({ kind: 'k' }, { retries: { ...RETRIES, floor: 0.5 } })
    assert.equal((await claimIds(store)).length, 1)
    assert.deepEqual(await claimIds(store), [])
    await store.budgets.set({ kind: 'k' }, { retries: { ...RETRIES, dependency: 'api' } })
    assert.equal((await claimIds(store)).length, 1)
    await store.budgets.set({ kind: 'l' }, { retries: { ...RETRIES, dependency: 'api', floor: 0.7 } })
    assert.equal((await claimIds(store)).length, 1, 'also with those of its dependency')
    assert.deepEqual(await claimIds(store), [])
  },

  async 'a retry without delay passes the budget too'(store, advance) {
    await startOfStep(store, advance)
    await store.budgets.set({ kind: 'k' }, { retries: { ...RETRIES, floor: 0.1 } })
    await addMany(store, 20)
    await failAll(store, AT_ONCE)
    assert.equal((await claimIds(store)).length, 4)
    assert.deepEqual(await claimIds(store), [])
  },

  async 'retries that were due first come first'(store, advance) {
    await startOfStep(store, advance)
    await store.budgets.set({ kind: 'k' }, { retries: { ...RETRIES, share: 0.5, floor: 0.1 } })
    await add(store, { id: 'c' }, { id: 'a' }, { id: 'd' }, { id: 'b' })
    const { tasks } = await claim(store)
    const delays: Readonly<Record<string, number>> = { a: 300, b: 200, c: 100, d: 400 }
    for (const task of tasks)
      await fail(store, [task], { type: 'retry', delayMs: delays[task.id] ?? 0, isBackoff: true })
    await advance(1000)
    assert.deepEqual((await claimIds(store)).sort(), ['b', 'c'])
  },

  async 'first attempts earn retries, whatever their end, and later attempts do not'(store, advance) {
    await startOfStep(store, advance)
    await store.budgets.set({ kind: 'k' }, { retries: { ...RETRIES, floor: 0.1 } })
    await addMany(store, 10)
    await failAll(store, AT_ONCE)
    const again = (await claim(store)).tasks
    assert.equal(again.length, 2)
    await fail(store, again)
    assert.deepEqual(await claimIds(store), [])
    await addMany(store, 10)
    const { tasks } = await claim(store)
    assert.equal(tasks.length, 10)
    for (const task of tasks.slice(0, 5)) await settle(store, task, { type: 'succeeded' })
    for (const task of tasks.slice(5, 8)) await settle(store, task, { type: 'skipped', reason: 'old' })
    for (const task of tasks.slice(8)) await kill(store, task)
    assert.equal((await retriesOf(store)).first, 20)
    assert.equal((await claimIds(store)).length, 2)
  },

  async 'many successes at once earn as many retries as single ones'(store, advance) {
    await startOfStep(store, advance)
    await store.budgets.set({ kind: 'k' }, { retries: RETRIES })
    await addMany(store, 10)
    const { tasks } = await claim(store)
    const outcome: Outcome = { type: 'succeeded' }
    await store.settle(tasks.map(task => ({ id: task.id, token: task.token, outcome, attempt: entry(task) })))
    assert.equal((await retriesOf(store)).first, 10)
  },

  async 'deferrals, losses and tasks that are handed back or redriven are not charged'(store, advance) {
    await startOfStep(store, advance)
    await store.budgets.set({ kind: 'k' }, { retries: RETRIES })
    const limited = { verdict: { class: 'rate_limited', code: 'http_429' }, error: 'Error: slow down' } as const
    await addOne(store, { id: 'a' })
    await settle(store, await claimOne(store), { type: 'deferred', delayMs: 10 }, limited)
    await advance(10)
    await settle(store, await claimOne(store), { type: 'later', delayMs: 10 })
    await advance(10)
    await settleUncounted(store, await claimOne(store), { type: 'released' })
    await lose(store, advance)
    await settleUncounted(store, await claimOne(store), AT_ONCE)
    assert.equal((await retriesOf(store)).first, 0)
    await kill(store, await claimOne(store))
    await store.redrive(['a'], { who: 'ann' })
    await settle(store, await claimOne(store), { type: 'succeeded' })
    const { first, retried, held } = await retriesOf(store)
    assert.deepEqual([first, retried, held], [2, 0, 0])
  },

  async 'other kinds are not held, and a category may have a budget of its own'(store, advance) {
    await startOfStep(store, advance)
    await store.budgets.set({ kind: 'k' }, { retries: { ...RETRIES, floor: 0.1 } })
    await store.budgets.set({ kind: 'k', category: 'llm' }, { retries: { ...RETRIES, share: 1 } })
    await addMany(store, 10)
    await addMany(store, 10, { category: 'llm' })
    await addMany(store, 10, { kind: 'other' })
    const rooms = [{ kinds: ['k', 'other'] }]
    const { tasks } = await claim(store, { rooms })
    assert.equal(tasks.length, 30)
    await fail(store, tasks, AT_ONCE)
    const again = (await claim(store, { rooms })).tasks
    const numberOf = (isMeant: (task: ClaimedTask) => boolean) => again.filter(isMeant).length
    assert.equal(
      numberOf(({ kind }) => kind === 'other'),
      10,
    )
    assert.equal(
      numberOf(({ category }) => category === 'llm'),
      10,
    )
    assert.equal(
      numberOf(({ kind, category }) => kind === 'k' && category === ''),
      2,
    )
    const figures = (await store.budgets.list()).map(({ category, retries }) => [category, retries?.first])
    assert.deepEqual(figures, [
      [undefined, 10],
      ['llm', 10],
    ])
  },

  async 'kinds that name the same dependency share one budget, and what was due first comes first'(store, advance) {
    await startOfStep(store, advance)
    const retries = { ...RETRIES, floor: 0.1, dependency: 'api' }
    await store.budgets.set({ kind: 'k' }, { retries: { ...retries, share: 1 } })
    await store.budgets.set({ kind: 'l', category: 'c' }, { retries })
    await store.budgets.set({ kind: 'other' }, { retries: { ...retries, dependency: 'another' } })
    const rooms = [{ kinds: ['k', 'l', 'other'] }]
    await addMany(store, 15)
    await addMany(store, 5, { kind: 'l', category: 'c' })
    const { tasks } = await claim(store, { rooms })
    // All retries of `l` are due before those of `k`.
    const delayOf = ({ kind }: ClaimedTask) => (kind === 'l' ? 100 : 200)
    for (const task of tasks) {
      await fail(store, [task], { type: 'retry', delayMs: delayOf(task), isBackoff: true })
    }
    await advance(100)
    assert.equal((await claimIds(store, { rooms })).length, 4)
    await advance(100)
    assert.deepEqual(await claimIds(store, { rooms }), [])
    const figures = (await store.budgets.list()).map(budget => {
      const { share, first, retried, held, dependency } = budget.retries ?? {}
      return [budget.kind, share, first, retried, held, dependency]
    })
    assert.deepEqual(figures, [
      ['k', 0.2, 20, 4, 15, 'api'],
      ['l', 0.2, 20, 4, 1, 'api'],
      ['other', 0.2, 0, 0, 0, 'another'],
    ])
    await store.budgets.set({ kind: 'k' }, { retries: { ...retries, share: 0.4 } })
    const again = (await claim(store, { rooms })).tasks.map(({ kind }) => kind).sort()
    assert.deepEqual(again, ['k', 'k', 'k', 'l'], 'what was set last holds for both')
    assert.equal(await store.budgets.lift({ kind: 'l', category: 'c' }), true)
    assert.equal((await retriesOf(store)).first, 15)
  },

  async 'the head of an ordered lane keeps its place while it is held'(store, advance) {
    await startOfStep(store, advance)
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await store.budgets.set({ kind: 'k' }, { retries: { ...RETRIES, floor: 0.1 } })
    await add(store, { id: 'a1', key: 'a' }, { id: 'a2', key: 'a' }, { id: 'b1', key: 'b' }, { id: 'b2', key: 'b' })
    const { tasks } = await claim(store)
    assert.deepEqual(tasks.map(({ id }) => id).sort(), ['a1', 'b1'])
    await fail(store, tasks, IN_A_SECOND)
    assert.deepEqual(await claimIds(store), [])
    await advance(1000)
    const head = await claimOne(store)
    const [lane, other] = head.id === 'a1' ? ['a', 'b'] : ['b', 'a']
    assert.deepEqual(await claimIds(store), [])
    await settle(store, head, { type: 'succeeded' })
    assert.deepEqual(await claimIds(store), [`${lane}2`])
    await advance(80_000)
    assert.deepEqual(await claimIds(store), [`${other}1`])
  },

  async 'a held retry is listed and counted, and can be edited and cancelled'(store, advance) {
    await startOfStep(store, advance)
    await store.budgets.set({ kind: 'k' }, { retries: { ...RETRIES, floor: 0.1 } })
    await add(store, { id: 'a' }, { id: 'b' }, { id: 'c' })
    await failAll(store, AT_ONCE)
    const [through] = await claimIds(store)
    const [held = '', other = ''] = ['a', 'b', 'c'].filter(id => id !== through)
    const [stats] = (await store.stats()).kinds
    assert.deepEqual([stats?.waiting, stats?.budgeted, stats?.held, stats?.ready], [2, 2, 0, 0])
    assert.deepEqual((await store.standing(held, 10))?.retryBudget, { kind: 'k' })
    assert.equal((await store.standing(through ?? '', 10))?.retryBudget, undefined)
    const page = await store.list({ status: 'waiting' }, { limit: 10 })
    assert.deepEqual(page.items.map(({ id }) => id).sort(), [held, other].sort())
    assert.equal(page.items[0]?.nextAttemptAt, await store.now())
    assert.equal(await store.edit(held, '"new"', { who: 'ann' }), true)
    assert.deepEqual(await store.cancel([other]), [other])
    assert.equal((await retriesOf(store)).held, 1)
    await advance(70_000)
    assert.deepEqual(
      (await claim(store)).tasks.map(({ id, payload }) => [id, payload]),
      [[held, '"new"']],
    )
  },

  async 'retries that wait already come under a new budget, and are free when it is lifted'(store, advance) {
    await startOfStep(store, advance)
    await addMany(store, 20)
    await failAll(store, IN_A_SECOND)
    await add(store, { id: 'first', runAt: (await store.now()) + 1000 })
    const by = { who: 'ann' }
    await store.budgets.set({ kind: 'k' }, { retries: { ...RETRIES, floor: 0.1 } }, by)
    await advance(1000)
    const ids = await claimIds(store)
    assert.equal(ids.length, 2)
    assert.ok(ids.includes('first'))
    await store.budgets.set({ kind: 'k', category: '' }, { retries: { ...RETRIES, floor: 0.2 } }, by)
    assert.equal((await claimIds(store)).length, 1)
    assert.equal(await store.budgets.lift({ kind: 'k', category: '' }, by), true)
    assert.deepEqual(await claimIds(store), [])
    assert.equal(await store.budgets.lift({ kind: 'k' }, by), true)
    assert.equal((await claimIds(store)).length, 18)
    const acts = (await store.audit.page({ limit: 10 })).items.map(item => JSON.parse(item))
    assert.deepEqual(acts[0].retries, { share: 0.2, window_ms: 60_000, floor: 0.1 })
    assert.deepEqual(
      acts.map(({ event_type }) => event_type),
      ['budget_set', 'budget_set', 'budget_lifted', 'budget_lifted'],
    )
  },

  async 'a budget of both keeps its gate and its retries apart'(store, advance) {
    await startOfStep(store, advance)
    const failures = { share: 0.5, minAttempts: 10, windowMs: 60_000, holdMs: 30_000 }
    await store.budgets.set({ kind: 'k' }, { failures, retries: { ...RETRIES, floor: 0.1 } })
    await addMany(store, 10)
    await failAll(store, AT_ONCE)
    assert.deepEqual(await claimIds(store), [])
    assert.equal((await store.budgets.list())[0]?.gate.state, 'open')
    assert.equal(await store.budgets.close({ kind: 'k' }), true)
    assert.equal((await claimIds(store)).length, 2)
    assert.equal((await retriesOf(store)).first, 10)
    await store.budgets.set({ kind: 'k' }, { failures, retries: { ...RETRIES, share: 0.4, floor: 0.1 } })
    assert.equal((await claimIds(store)).length, 2)
    await store.budgets.set({ kind: 'k' }, { failures })
    assert.equal((await claimIds(store)).length, 6)
    assert.equal((await store.budgets.list())[0]?.retries, undefined)
  },

  async 'items of a run are held too, and are cancelled with it'(store, advance) {
    await startOfStep(store, advance)
    const kind = 'pipeline:enrich'
    await store.budgets.set({ kind, category: 'call' }, { retries: { ...RETRIES, floor: 0.1 } })
    await store.runs.open({ id: 'r', pipeline: 'enrich', version: 'v1', stages: ['call', 'save'], settings: SETTINGS })
    const items = Array.from({ length: 10 }, (_, n) => ({ payload: String(n) }))
    await store.runs.take('r', { reader: 'r', leaseMs: LEASE_MS, position: 0, items, isEnd: true })
    await fail(store, (await claim(store, { kinds: [kind] })).tasks, AT_ONCE)
    const again = (await claim(store, { kinds: [kind] })).tasks
    assert.equal(again.length, 2)
    for (const task of again) await settle(store, task, { type: 'advanced', to: 'save', value: '1', keep: false })
    assert.deepEqual((await store.runs.get('r'))?.counts.waiting, 10)
    assert.deepEqual(await store.runs.cancel('r', 100, { who: 'ann' }), { cancelled: 10, left: 0 })
    assert.equal((await retriesOf(store)).held, 0)
  },

  async 'budgets that would hold retries for ever are refused'(store) {
    const wrong = [
      { retries: { share: 0 } },
      { retries: { share: 1.1 } },
      { retries: { share: 0.2, windowMs: 1 } },
      { retries: { share: 0.2, floor: 0 } },
      { retries: { share: 0.2, windowMs: 10_000, floor: 0.05 } },
      { retries: { share: 0.2, dependency: '' } },
    ]
    for (const budget of wrong)
      await assert.rejects(store.budgets.set({ kind: 'k' }, budget), { name: 'OptionError' }, JSON.stringify(budget))
    await store.budgets.set({ kind: 'k' }, { retries: { share: 0.2 } })
    const { share, windowMs, floor } = await retriesOf(store)
    assert.deepEqual([share, windowMs, floor], [0.2, 60_000, 1])
  },
}

const SETTINGS: RunSettings = {
  failureBudget: 1,
  stageBudgets: {},
  checkInterval: 10,
  budgetWindow: undefined,
  completedFrom: 0.95,
  partialFrom: 0.5,
  maxUnfinished: 10_000,
  concurrency: {},
}

/** Budgets count in steps of the store's clock. */
async function startOfStep(store: StoreContract, advance: Advance): Promise<void> {
  await advance(STEP_MS - ((await store.now()) % STEP_MS))
}

async function addMany(store: StoreContract, count: number, task: Partial<NewTask> = {}): Promise<void> {
  await add(store, ...Array.from({ length: count }, () => task))
}

/** Lets all tasks fail that there are to claim. */
async function failAll(store: StoreContract, outcome: Outcome): Promise<void> {
  await fail(store, (await claim(store, { limit: 1000 })).tasks, outcome)
}

async function fail(store: StoreContract, tasks: readonly ClaimedTask[], outcome = AT_ONCE): Promise<void> {
  const settlements = tasks.map(task => {
    const attempt = entry(task, { verdict: TIMED_OUT, error: 'Error: it failed' })
    return { id: task.id, token: task.token, outcome, attempt }
  })
  await store.settle(settlements)
}

async function retriesOf(store: StoreContract): Promise<RetryRecord> {
  const found = (await store.budgets.list()).find(({ retries }) => retries !== undefined)?.retries
  assert.ok(found !== undefined, 'there should be a retry budget')
  return found
}
