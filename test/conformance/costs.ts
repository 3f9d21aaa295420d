import assert from 'node:assert/strict'
import type { ClaimedTask, Cost, CostField, CostFilter, Outcome, StoreContract } from '../../src/store/internal.js'
import { entry, kill, type StoreBehaviours, settle, start } from './harness.js'

const HOUR_MS = 3_600_000
const SUCCEEDED: Outcome = { type: 'succeeded' }
const RETRY: Outcome = { type: 'retry', delayMs: 0, isBackoff: true }
const TIMED_OUT = { verdict: { class: 'retryable', code: 'timeout' }, error: 'Error: slow' } as const

/** What attempts have spent, and how. */
export const COSTS: StoreBehaviours = {
  async 'costs are added up by kind, category and key, or any of them'(store) {
    await spend(store, { category: 'a', key: 'x' }, { tokens: 100, pages: 2 })
    await spend(store, { category: 'a', key: 'y' }, { tokens: 20 })
    await spend(store, { category: 'b', key: 'x' }, { tokens: 3 })
    await spend(store, { kind: 'other' }, { tokens: 4000 })
    assert.deepEqual(await costs(store, ['kind']), [
      ['k', { tokens: 123, pages: 2 }],
      ['other', { tokens: 4000 }],
    ])
    assert.deepEqual(await costs(store, ['category'], { kind: 'k' }), [
      ['a', { tokens: 120, pages: 2 }],
      ['b', { tokens: 3 }],
    ])
    assert.deepEqual(await costs(store, ['key', 'category'], { kind: 'k' }), [
      ['x a', { tokens: 100, pages: 2 }],
      ['x b', { tokens: 3 }],
      ['y a', { tokens: 20 }],
    ])
    assert.deepEqual(await costs(store, [], { key: 'x' }), [['', { tokens: 103, pages: 2 }]])
    assert.deepEqual(await costs(store, ['kind'], { category: '' }), [['other', { tokens: 4000 }]])
    assert.deepEqual(await costs(store, ['kind'], { kind: 'unknown' }), [])
  },

  async 'every attempt counts, whatever becomes of it and of its task'(store) {
    const outcomes: readonly Outcome[] = [
      SUCCEEDED,
      { type: 'skipped', reason: 'old' },
      { type: 'dead', reason: 'final_error' },
      { type: 'later', delayMs: HOUR_MS },
      { type: 'deferred', delayMs: HOUR_MS },
      { type: 'retry', delayMs: HOUR_MS, isBackoff: true },
      { type: 'cancelled' },
    ]
    for (const [n, outcome] of outcomes.entries()) await spend(store, { key: `${n}` }, { tokens: 10 ** n }, outcome)
    const task = await start(store, { key: 'released' })
    const release = { id: task.id, token: task.token, outcome: { type: 'released' }, used: { tokens: 0.5 } } as const
    assert.deepEqual(await store.settle([release]), [{ result: 'settled' }])
    assert.deepEqual(await costs(store, []), [['', { tokens: 1111111.5 }]])
  },

  async 'the attempts of a task, and of tasks that end together, add up'(store) {
    const first = await start(store, { id: 't', kind: 'k' })
    await settleWith(store, first, { tokens: 1 }, RETRY)
    const { tasks } = await store.claim({
      worker: 'w1',
      leaseMs: 1000,
      limit: 1,
      isIdle: false,
      rooms: [{ kinds: ['k'] }],
    })
    const others = [
      await start(store, { kind: 'k' }),
      await start(store, { kind: 'k' }),
      await start(store, { kind: 'l' }),
    ]
    await store.settle(
      [...tasks, ...others].map((task, n) => {
        return {
          id: task.id,
          token: task.token,
          outcome: SUCCEEDED,
          attempt: entry(task),
          used: { tokens: 10 ** (n + 1) },
        }
      }),
    )
    assert.deepEqual(await costs(store, ['kind']), [
      ['k', { tokens: 1111 }],
      ['l', { tokens: 10000 }],
    ])
  },

  async 'a settlement that is repeated, or comes too late, spends nothing'(store) {
    const task = await start(store)
    await settleWith(store, task, { tokens: 5 }, RETRY)
    assert.equal(await settleWith(store, task, { tokens: 5 }, RETRY), 'stale')
    const repeated = { id: task.id, token: task.token, outcome: RETRY, used: { tokens: 5 } }
    assert.deepEqual(await store.settle([repeated, repeated]), [{ result: 'stale' }, { result: 'stale' }])
    assert.deepEqual(await costs(store, []), [['', { tokens: 5 }]])
  },

  async 'amounts that are too large for a sum do not keep their attempts from ending'(store) {
    for (let n = 0; n < 3; n++) await spend(store, {}, { tokens: Number.MAX_VALUE, pages: Number.MIN_VALUE })
    const [total] = await costs(store, [])
    assert.ok(Number.isFinite(total?.[1].tokens))
  },

  async 'attempts that tell no cost leave no trace'(store) {
    const task = await start(store)
    await settle(store, task, SUCCEEDED)
    await kill(store, await start(store))
    await spend(store, {}, {})
    assert.deepEqual(await costs(store, ['kind']), [])
  },

  async 'the stages of items are told apart by their category, and runs by their key'(store) {
    const item = await start(store, { category: 'fetch', key: 'run-1' })
    const on = { type: 'advanced', to: 'parse', value: '1', keep: true } as const
    const attempt = entry(item, { notes: { used: { tokens: 7 } } })
    const advance = { id: item.id, token: item.token, outcome: on, attempt, used: { tokens: 7 } }
    const [kept] = await store.settle([advance])
    assert.ok(kept?.result === 'kept')
    assert.equal((await store.settle([advance]))[0]?.result, 'kept')
    await settleWith(store, { ...item, token: kept.token }, { tokens: 70 }, SUCCEEDED)
    assert.deepEqual(await costs(store, ['key', 'category']), [
      ['run-1 fetch', { tokens: 7 }],
      ['run-1 parse', { tokens: 70 }],
    ])
  },

  async 'costs are kept by the hour, and a period begins with the hour of its start'(store, advance) {
    const from = await store.now()
    await advance(HOUR_MS - (from % HOUR_MS))
    const hour = await store.now()
    await advance(HOUR_MS / 2)
    await spend(store, {}, { tokens: 1 })
    await advance(HOUR_MS / 2)
    await spend(store, {}, { tokens: 10 })
    const since = async (time: number) => (await costs(store, [], { since: time }))[0]?.[1].tokens
    assert.equal(await since(from), 11)
    assert.equal(await since(hour + HOUR_MS - 1), 11)
    assert.equal(await since(hour + HOUR_MS), 10)
    assert.equal(await since(hour + 2 * HOUR_MS), undefined)
  },

  async 'costs outlive their tasks and lanes, and go when audit records would'(store, advance) {
    await spend(store, { key: 'x' }, { tokens: 3 })
    await advance(2 * 24 * HOUR_MS)
    for (let n = 0; n < 3; n++) {
      await store.prune({ endedMs: 1, deadMs: 1, keysMs: 1 }, 100)
      await advance(24 * HOUR_MS + 1)
    }
    assert.equal((await store.count({})).succeeded, 0)
    assert.deepEqual(await costs(store, ['key']), [['x', { tokens: 3 }]])
    await store.prune({ auditMs: 30 * 24 * HOUR_MS }, 100)
    assert.deepEqual(await costs(store, ['key']), [['x', { tokens: 3 }]])
    await store.prune({ auditMs: 24 * HOUR_MS }, 100)
    assert.deepEqual(await costs(store, ['key']), [])
  },

  async 'a field or a time that there is not is refused'(store) {
    await assert.rejects(
      store.costs({}, ['status' as never]),
      /Costs are added up by kind, category, key, got 'status'/,
    )
    await assert.rejects(store.costs({ status: 'dead' } as never, []), /no field 'status' to select by/)
    await assert.rejects(store.costs({ since: Number.NaN }, []), /since/)
  },
}

/** Runs a task that spends this much. */
async function spend(
  store: StoreContract,
  task: { readonly kind?: string; readonly category?: string; readonly key?: string },
  used: Cost,
  outcome: Outcome = SUCCEEDED,
): Promise<void> {
  assert.equal(await settleWith(store, await start(store, task), used, outcome), 'settled')
}

async function settleWith(store: StoreContract, task: ClaimedTask, used: Cost, outcome: Outcome) {
  const attempt = entry(task, outcome.type === 'retry' || outcome.type === 'dead' ? TIMED_OUT : {})
  const [settled] = await store.settle([{ id: task.id, token: task.token, outcome, attempt, used }])
  return settled?.result
}

/** The totals, each with its fields as text, in their order. */
async function costs(
  store: StoreContract,
  by: readonly CostField[],
  filter: CostFilter = {},
): Promise<[fields: string, used: Cost][]> {
  const totals = await store.costs(filter, by)
  return totals
    .map(({ used, ...fields }): [string, Cost] => [by.map(field => fields[field]).join(' '), used])
    .sort(([a], [b]) => (a < b ? -1 : 1))
}
