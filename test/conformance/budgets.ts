import assert from 'node:assert/strict'
import type { BudgetRecord } from '../../src/store/index.js'
import type { ClaimedTask, GateRecord, Outcome, Settled, StoreContract } from '../../src/store/internal.js'
import { add, addOne, claim, claimIds, entry, LEASE_MS, type StoreBehaviours } from './harness.js'

const BUDGET = { failures: { share: 0.5, minAttempts: 4, windowMs: 60_000, holdMs: 30_000 } }
const RETRY: Outcome = { type: 'retry', delayMs: 0, isBackoff: true }
const SUCCEEDED: Outcome = { type: 'succeeded' }

/** Failure budgets: a gate over all lanes of a kind, or of a kind and category, on all machines. */
export const BUDGETS: StoreBehaviours = {
  async 'too large a share of failures opens the gate: no task of the kind is claimed'(store, advance) {
    await store.budgets.set({ kind: 'k' }, BUDGET)
    await addMany(store, 10)
    const first = (await claim(store, { limit: 4 })).tasks
    await fail(store, first.slice(0, 2))
    assert.equal((await gateOf(store)).state, 'closed')
    const answers = await fail(store, first.slice(2), 'http_503')
    const gate = await gateOf(store)
    assert.equal(gate.state, 'open')
    const now = await store.now()
    assert.deepEqual([gate.since, gate.until, gate.holds], [now, now + 30_000, 1])
    assert.deepEqual(gate.cause, { code: 'http_503', attempts: 4, failed: 4 })
    assert.deepEqual(answers[0]?.gates, [{ kind: 'k', gate }])
    const { tasks, nextAt } = await claim(store, { worker: 'w2' })
    assert.deepEqual(tasks, [])
    assert.ok(nextAt !== undefined && nextAt <= now + 30_000)
    await advance(29_999)
    assert.deepEqual(await claimIds(store), [])
  },

  async 'first attempts that were made elsewhere count, and the next settlement judges'(store) {
    await store.budgets.set({ kind: 'k' }, BUDGET)
    const verdict = { class: 'retryable', code: 'http_503' } as const
    const now = await store.now()
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'consumer', verdict, error: 'Error: down' }
    await add(store, ...Array.from({ length: 4 }, () => ({ tried: { outcome: RETRY, attempt } })))
    assert.deepEqual(
      [(await budgetOf(store)).recent, (await gateOf(store)).state],
      [{ attempts: 4, failed: 4 }, 'closed'],
    )
    const [first] = (await claim(store, { limit: 1 })).tasks
    assert.ok(first !== undefined)
    const [answer] = await fail(store, [first])
    assert.deepEqual(answer?.gates, [{ kind: 'k', gate: await gateOf(store) }])
    assert.deepEqual((await gateOf(store)).cause, { code: 'http_503', attempts: 5, failed: 5 })
  },

  async 'of a batch of settlements the last one judges'(store) {
    await store.budgets.set({ kind: 'k' }, BUDGET)
    await addMany(store, 8)
    const { tasks } = await claim(store)
    const settlements = tasks.map((task, n) => {
      const verdict = n < 4 ? ({ class: 'retryable', code: 'http_503' } as const) : undefined
      const outcome = verdict ? RETRY : SUCCEEDED
      return { id: task.id, token: task.token, outcome, attempt: entry(task, { ...(verdict && { verdict }) }) }
    })
    await store.settle(settlements)
    assert.deepEqual(
      [(await budgetOf(store)).recent, (await gateOf(store)).state],
      [{ attempts: 8, failed: 4 }, 'closed'],
    )
  },

  async 'the cause is the group of the commonest failure'(store) {
    await store.budgets.set({ kind: 'k' }, BUDGET)
    await addMany(store, 4)
    const { tasks } = await claim(store)
    const group = { id: '1-9c2f', kind: 'k', code: 'http_503', errorName: 'Error', pattern: 'down', frames: [] }
    const verdict = { class: 'retryable', code: 'http_503' } as const
    for (const [n, task] of tasks.entries()) {
      const attempt = entry(task, { verdict, error: 'Error: down', ...(n > 0 && { group }) })
      await store.settle([{ id: task.id, token: task.token, outcome: RETRY, attempt }])
    }
    assert.deepEqual((await gateOf(store)).cause, { code: 'http_503', group: '1-9c2f', attempts: 4, failed: 4 })
  },

  async 'other kinds go on, and so do other categories if the budget is that of one'(store) {
    await store.budgets.set({ kind: 'k', category: 'llm' }, BUDGET)
    await addMany(store, 4, { category: 'llm' })
    await fail(store, (await claim(store)).tasks)
    await add(store, { id: 'plain' }, { id: 'other', kind: 'other' }, { id: 'keyed', key: 'a', category: 'mail' })
    const rooms = [{ kinds: ['k', 'other'] }]
    assert.deepEqual((await claimIds(store, { rooms })).sort(), ['keyed', 'other', 'plain'])
    assert.deepEqual(await claimIds(store, { rooms }), [])
  },

  async 'the budget of a kind counts all its lanes together'(store) {
    await store.budgets.set({ kind: 'k' }, BUDGET)
    await add(store, ...['a', 'b', 'c', 'd', 'e'].map(key => ({ key })), { category: 'llm', key: 'a' })
    await fail(store, (await claim(store)).tasks.slice(0, 4))
    assert.equal((await gateOf(store)).state, 'open')
    assert.deepEqual(await claimIds(store), [])
  },

  async 'half of the attempts may fail where half is the share'(store) {
    await store.budgets.set({ kind: 'k' }, BUDGET)
    await addMany(store, 8)
    const { tasks } = await claim(store)
    await succeed(store, tasks.slice(0, 4))
    await fail(store, tasks.slice(4))
    assert.equal((await gateOf(store)).state, 'closed')
    assert.deepEqual((await budgetOf(store)).recent, { attempts: 8, failed: 4 })
  },

  async 'failures of the payload, rate limits and losses do not count'(store, advance) {
    await store.budgets.set({ kind: 'k' }, BUDGET)
    await addMany(store, 8)
    const { tasks } = await claim(store, { limit: 5 })
    const final = { class: 'final', code: 'http_422' } as const
    await settleAll(store, tasks, { type: 'dead', reason: 'final_error' }, final)
    const limited = { class: 'rate_limited', code: 'http_429' } as const
    await settleAll(store, (await claim(store, { limit: 1 })).tasks, { type: 'deferred', delayMs: 1000 }, limited)
    await claim(store, { worker: 'killed', limit: 2 })
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS })
    assert.deepEqual((await budgetOf(store)).recent, { attempts: 0, failed: 0 })
    const undecided = (await claim(store)).tasks.filter(({ isUndecided }) => isUndecided)
    await settleAll(store, undecided, RETRY, { class: 'retryable', code: 'lost' })
    assert.deepEqual((await budgetOf(store)).recent, { attempts: 0, failed: 0 })
  },

  async 'attempts are forgotten after the window'(store, advance) {
    await store.budgets.set({ kind: 'k' }, BUDGET)
    await addMany(store, 10)
    await fail(store, (await claim(store, { limit: 3 })).tasks)
    await advance(70_000)
    await fail(store, (await claim(store, { limit: 3 })).tasks)
    assert.equal((await gateOf(store)).state, 'closed')
    assert.deepEqual((await budgetOf(store)).recent, { attempts: 3, failed: 3 })
    await fail(store, (await claim(store, { limit: 1 })).tasks)
    assert.equal((await gateOf(store)).state, 'open')
  },

  async 'after the hold one task probes; if it fails, the next hold is twice as long'(store, advance) {
    await openGate(store)
    await advance(30_000)
    assert.equal((await gateOf(store)).state, 'half_open')
    const [probe, ...others] = (await claim(store)).tasks
    assert.ok(probe !== undefined)
    assert.deepEqual(others, [])
    assert.deepEqual(await claimIds(store, { worker: 'w2' }), [])
    await fail(store, [probe], 'http_502')
    const gate = await gateOf(store)
    const now = await store.now()
    assert.deepEqual([gate.state, gate.until, gate.holds], ['open', now + 60_000, 2])
    assert.equal(gate.since, now - 30_000)
    await advance(59_999)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'a probe that succeeds opens the kind gradually, until the gate is closed'(store, advance) {
    await openGate(store, 600)
    await advance(30_000)
    const sizes: number[] = []
    let answers: Settled[] = []
    for (let round = 0; round < 9; round++) {
      const { tasks } = await claim(store, { limit: 1000 })
      sizes.push(tasks.length)
      if (tasks.length > 256) break
      answers = await succeed(store, tasks)
    }
    assert.deepEqual(sizes.slice(0, 8), [1, 2, 4, 8, 16, 32, 64, 128])
    assert.ok((sizes[8] ?? 0) > 256, `the last claim had ${sizes[8]} tasks`)
    const gate = await gateOf(store)
    assert.deepEqual(gate, { state: 'closed', since: undefined, until: undefined, holds: 0, cause: undefined })
    assert.deepEqual(answers[0]?.gates, [{ kind: 'k', gate }])
    assert.deepEqual((await budgetOf(store)).recent, { attempts: 0, failed: 0 })
  },

  async 'a gate with little work behind it closes a window after its hold'(store, advance) {
    await openGate(store, 10)
    await advance(30_000)
    for (let n = 0; n < 4; n++) await succeed(store, (await claim(store, { limit: 1 })).tasks)
    assert.equal((await gateOf(store)).state, 'half_open')
    await advance(60_000)
    const answers = await succeed(store, (await claim(store, { limit: 1 })).tasks)
    const gate = await gateOf(store)
    assert.equal(gate.state, 'closed')
    assert.deepEqual(answers[0]?.gates, [{ kind: 'k', gate }])
  },

  async 'a few failures among the first tasks do not hold again, too many do'(store, advance) {
    await openGate(store, 60)
    await advance(30_000)
    await succeed(store, (await claim(store)).tasks)
    const [third, fourth] = (await claim(store)).tasks
    assert.ok(third !== undefined && fourth !== undefined)
    await fail(store, [third])
    assert.equal((await gateOf(store)).state, 'half_open')
    await succeed(store, [fourth])
    const { tasks } = await claim(store)
    assert.equal(tasks.length, 3)
    await fail(store, tasks)
    assert.equal((await gateOf(store)).state, 'open')
  },

  async 'tasks that were running when the gate opened are no probes'(store, advance) {
    await store.budgets.set({ kind: 'k' }, BUDGET)
    await addMany(store, 12)
    const { tasks } = await claim(store, { limit: 8 })
    await fail(store, tasks.slice(0, 4))
    await advance(30_000)
    const [probe] = (await claim(store)).tasks
    assert.ok(probe !== undefined)
    await fail(store, tasks.slice(4, 6))
    await succeed(store, tasks.slice(6))
    assert.equal((await gateOf(store)).state, 'half_open')
    assert.deepEqual(await claimIds(store), [])
    await succeed(store, [probe])
    assert.equal((await claimIds(store)).length, 2)
  },

  async 'a probe without an answer makes room for another one'(store, advance) {
    await openGate(store)
    await advance(30_000)
    const [handedBack] = (await claim(store)).tasks
    assert.ok(handedBack !== undefined)
    await store.settle([{ id: handedBack.id, token: handedBack.token, outcome: { type: 'released' } }])
    const [badPayload] = (await claim(store)).tasks
    assert.ok(badPayload !== undefined)
    await settleAll(store, [badPayload], { type: 'dead', reason: 'final_error' }, { class: 'final', code: 'http_422' })
    assert.equal((await claimIds(store, { worker: 'killed' })).length, 1)
    assert.deepEqual(await claimIds(store), [])
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS })
    assert.equal((await claimIds(store)).length, 1)
    assert.equal((await gateOf(store)).state, 'half_open')
  },

  async 'a probe that runs for long does not make claims ask again at once, and its outcome counts'(store, advance) {
    await openGate(store)
    await advance(30_000)
    const [probe] = (await claim(store)).tasks
    assert.ok(probe !== undefined)
    for (let minute = 0; minute < 3; minute++) {
      await store.heartbeat({ worker: 'w1', leaseMs: 600_000 })
      await advance(61_000)
      const { tasks, now, nextAt } = await claim(store, { worker: 'w2' })
      assert.deepEqual(tasks, [])
      assert.ok(nextAt !== undefined && nextAt > now, `${nextAt} at ${now}`)
    }
    assert.equal((await gateOf(store)).state, 'half_open')
    await succeed(store, [probe])
    assert.equal((await claimIds(store)).length, 2)
  },

  async 'the hold of a rate limit and that of a gate each keep their own end'(store, advance) {
    await store.budgets.set({ kind: 'k' }, BUDGET)
    await addMany(store, 8)
    const { tasks } = await claim(store, { limit: 5 })
    const limited = { class: 'rate_limited', code: 'http_429' } as const
    await settleAll(store, tasks.slice(4), { type: 'deferred', delayMs: 40_000 }, limited)
    await fail(store, tasks.slice(0, 4))
    const now = await store.now()
    assert.equal((await store.lanes())[0]?.heldUntil, now + 40_000)
    assert.equal((await gateOf(store)).until, now + 30_000)
    await advance(30_000)
    assert.deepEqual(await claimIds(store), [])
    await advance(10_000)
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'rooms keep their limits while a gate is half open'(store, advance) {
    await openGate(store)
    await add(store, ...Array.from({ length: 5 }, () => ({ kind: 'other' })))
    const rooms = [{ kinds: ['k', 'other'], limit: 3 }]
    const kinds = async () => (await claim(store, { rooms })).tasks.map(({ kind }) => kind).sort()
    assert.deepEqual(await kinds(), ['other', 'other', 'other'])
    await advance(30_000)
    assert.deepEqual(await kinds(), ['k', 'other', 'other'])
  },

  async 'a task passes the gates of its kind and of its category'(store, advance) {
    await store.budgets.set({ kind: 'k' }, { failures: { ...BUDGET.failures, holdMs: 90_000 } })
    await store.budgets.set({ kind: 'k', category: 'llm' }, BUDGET)
    await addMany(store, 8, { category: 'llm' })
    await addMany(store, 2)
    await fail(store, (await claim(store, { categories: ['llm'], limit: 4 })).tasks)
    assert.deepEqual(
      (await store.budgets.list()).map(({ gate }) => gate.state),
      ['open', 'open'],
    )
    await advance(30_000)
    assert.deepEqual(await claimIds(store), [])
    await advance(60_000)
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'an item that advances waits where a gate is open'(store) {
    await store.budgets.set({ kind: 'k', category: 'two' }, BUDGET)
    await addMany(store, 4, { category: 'two' })
    await fail(store, (await claim(store)).tasks)
    await add(store, { id: 'item', category: 'one' })
    const [item] = (await claim(store)).tasks
    assert.equal(item?.id, 'item')
    const advanced: Outcome = { type: 'advanced', to: 'two', value: '1', keep: true }
    const [answer] = await settleAll(store, [item], advanced)
    assert.equal(answer?.result, 'settled')
  },

  async 'tasks behind an open gate count as held'(store) {
    await openGate(store, 3)
    const [kind] = (await store.stats()).kinds
    assert.deepEqual([kind?.waiting, kind?.held, kind?.ready], [7, 7, 0])
  },

  async 'a budget that is lifted or changed lets tasks pass at once'(store) {
    await openGate(store)
    assert.equal(await store.budgets.lift({ kind: 'k', category: 'llm' }), false)
    await store.budgets.set({ kind: 'k' }, BUDGET)
    assert.equal((await gateOf(store)).state, 'open')
    await store.budgets.set({ kind: 'k' }, { failures: { ...BUDGET.failures, share: 0.6 } })
    assert.equal((await gateOf(store)).state, 'closed')
    await fail(store, (await claim(store, { limit: 4 })).tasks)
    assert.deepEqual(await claimIds(store), [])
    assert.equal(await store.budgets.lift({ kind: 'k' }, { who: 'ann', why: 'it is back' }), true)
    assert.deepEqual(await store.budgets.list(), [])
    assert.equal((await claimIds(store, { limit: 3 })).length, 3)
    const { items } = await store.audit.page({ limit: 10 })
    const acts = items.map(item => JSON.parse(item))
    assert.deepEqual(
      acts.map(({ event_type, scope, who }) => [event_type, scope, who]),
      [['budget_lifted', { kind: 'k' }, 'ann']],
    )
  },

  async 'a gate that is closed by hand lets tasks pass at once, and its budget counts afresh'(store) {
    const by = { who: 'ann', why: 'it is back' }
    assert.equal(await store.budgets.close({ kind: 'k' }, by), false)
    await openGate(store)
    assert.equal(await store.budgets.close({ kind: 'k', category: 'llm' }, by), false)
    assert.equal(await store.budgets.close({ kind: 'k' }, by), true)
    assert.equal(await store.budgets.close({ kind: 'k' }, by), false)
    assert.equal((await gateOf(store)).state, 'closed')
    assert.deepEqual((await budgetOf(store)).recent, { attempts: 0, failed: 0 })
    const { tasks } = await claim(store, { limit: 4 })
    assert.equal(tasks.length, 4)
    await fail(store, tasks)
    assert.equal((await gateOf(store)).state, 'open')
    const acts = (await store.audit.page({ limit: 10 })).items.map(item => JSON.parse(item))
    assert.deepEqual(
      acts.map(({ event_type, scope, who, why }) => [event_type, scope, who, why]),
      [['budget_gate_closed', { kind: 'k' }, 'ann', 'it is back']],
    )
  },

  async 'a budget that code declares again leaves that of an operator alone'(store) {
    const declared = { ...BUDGET, isDeclared: true }
    await store.budgets.set({ kind: 'k' }, declared)
    await store.budgets.set({ kind: 'k' }, { failures: { share: 0.9 } }, { who: 'ann' })
    await store.budgets.set({ kind: 'k' }, declared)
    assert.equal((await budgetOf(store)).failures?.share, 0.9)
    await store.budgets.lift({ kind: 'k' })
    await store.budgets.set({ kind: 'k' }, declared)
    assert.deepEqual(await store.budgets.list(), [])
    await store.budgets.set({ kind: 'k' }, { failures: { share: 0.2 }, isDeclared: true })
    assert.deepEqual((await budgetOf(store)).failures, {
      share: 0.2,
      minAttempts: 20,
      windowMs: 60_000,
      holdMs: 30_000,
    })
  },

  async 'budgets are listed by kind and category, and wrong ones are refused'(store) {
    await store.budgets.set({ kind: 'b' }, BUDGET)
    await store.budgets.set({ kind: 'a', category: '' }, BUDGET)
    await store.budgets.set({ kind: 'a' }, BUDGET)
    const scopes = (await store.budgets.list()).map(({ kind, category }) => [kind, category])
    assert.deepEqual(
      scopes.map(([kind]) => kind),
      ['a', 'a', 'b'],
    )
    const wrong = [
      {},
      { failures: { share: 1 } },
      { failures: { share: 0 } },
      { failures: { share: 0.5, windowMs: 1 } },
    ]
    for (const budget of wrong)
      await assert.rejects(store.budgets.set({ kind: 'k' }, budget), { name: 'OptionError' }, JSON.stringify(budget))
  },
}

async function addMany(store: StoreContract, count: number, task: { readonly category?: string } = {}): Promise<void> {
  for (let n = 0; n < count; n++) await addOne(store, task)
}

/** Sets a budget for the kind `k`, and lets its gate open, with this many more tasks behind it. */
async function openGate(store: StoreContract, more = 10): Promise<void> {
  await store.budgets.set({ kind: 'k' }, BUDGET)
  await add(store, ...Array.from({ length: more + 4 }, () => ({})))
  await fail(store, (await claim(store, { limit: 4 })).tasks)
  assert.equal((await gateOf(store)).state, 'open')
}

function fail(store: StoreContract, tasks: readonly ClaimedTask[], code = 'http_503'): Promise<Settled[]> {
  return settleAll(store, tasks, RETRY, { class: 'retryable', code })
}

function succeed(store: StoreContract, tasks: readonly ClaimedTask[]): Promise<Settled[]> {
  return settleAll(store, tasks, SUCCEEDED)
}

async function settleAll(
  store: StoreContract,
  tasks: readonly (ClaimedTask | undefined)[],
  outcome: Outcome,
  verdict?: { readonly class: 'final' | 'retryable' | 'rate_limited'; readonly code: string },
): Promise<Settled[]> {
  const settlements = tasks.flatMap(task => {
    if (task === undefined) return []
    const attempt = entry(task, { ...(verdict && { verdict, error: 'Error: it failed' }) })
    return [{ id: task.id, token: task.token, outcome, attempt }]
  })
  return store.settle(settlements)
}

async function budgetOf(store: StoreContract): Promise<BudgetRecord> {
  const [budget] = await store.budgets.list()
  assert.ok(budget !== undefined, 'there should be a budget')
  return budget
}

async function gateOf(store: StoreContract): Promise<GateRecord> {
  return (await budgetOf(store)).gate
}
