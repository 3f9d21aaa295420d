import assert from 'node:assert/strict'
import { add, addOne, claimOne, laneOf, type StoreBehaviours, settle, start } from './harness.js'

/** Rules for lanes keep who set them, and a held lane names the task that holds it. */
export const LANE_RULES: StoreBehaviours = {
  'a pause keeps who asked for it, when and why, also for lanes that do not exist yet': async store => {
    const now = await store.now()
    await store.pause({ kind: 'k' }, { isPaused: true, who: 'ada', why: 'the \u0001 "mail" server 🚀 is down' })
    await store.pause({ kind: 'k', category: 'c' }, { isPaused: false })
    assert.deepEqual(await store.laneRules(), {
      pauses: [
        { kind: 'k', isPaused: true, at: now, by: { who: 'ada', why: 'the \u0001 "mail" server 🚀 is down' } },
        { kind: 'k', category: 'c', isPaused: false, at: now, by: undefined },
      ],
      limits: [],
    })
  },

  'a rule replaces those that it covers, with the person who set them': async (store, advance) => {
    await store.pause({ kind: 'k', key: 'a' }, { isPaused: true, who: 'ada' })
    await advance(5)
    await store.pause({ kind: 'k' }, { isPaused: true, who: 'grace' })
    const { pauses } = await store.laneRules()
    assert.deepEqual(pauses, [{ kind: 'k', isPaused: true, at: await store.now(), by: { who: 'grace' } }])
  },

  'limits of several lanes are listed, each by itself and together': async store => {
    await store.limit({ kind: 'k' }, { concurrency: 2, isOrdered: false })
    await store.limit({ kind: 'l', category: 'c' }, { isShared: true, concurrency: 3 })
    // A single lane is made, so it needs no rule.
    await store.limit({ kind: 'k', category: '', key: '' }, { concurrency: 1 })
    const { limits } = await store.laneRules()
    assert.deepEqual(limits, [
      { kind: 'k', limits: { concurrency: 2 } },
      { kind: 'l', category: 'c', limits: { isShared: true, concurrency: 3 } },
    ])
  },

  'a filter selects the rules that hold for lanes with these fields': async store => {
    await store.pause({ kind: 'k' }, { isPaused: true })
    await store.pause({ kind: 'k', key: 'a' }, { isPaused: true })
    await store.pause({ kind: 'l', category: 'c' }, { isPaused: true })
    const kinds = async (filter: object) => {
      const { pauses } = await store.laneRules(filter)
      return pauses.map(({ kind, category, key }) => [kind, category, key].filter(name => name !== undefined).join('/'))
    }
    assert.deepEqual(await kinds({ kind: 'k', category: '', key: 'a' }), ['k', 'k/a'])
    assert.deepEqual(await kinds({ kind: 'k', key: 'b' }), ['k'])
    assert.deepEqual(await kinds({ category: 'c' }), ['k', 'k/a', 'l/c'])
  },

  'the pause of a run keeps who asked for it': async store => {
    const settings = { failureBudget: 1, stageBudgets: {}, checkInterval: 10, budgetWindow: undefined }
    const shares = { completedFrom: 0.95, partialFrom: 0.5, maxUnfinished: 10, concurrency: {} }
    const run = { id: 'r', pipeline: 'p', version: '1', stages: ['s'], settings: { ...settings, ...shares } }
    await store.runs.open(run)
    await store.runs.change('r', { isPaused: true }, { who: 'ada', why: 'lunch' })
    const { pauses } = await store.laneRules({ kind: 'pipeline:p', key: 'r' })
    assert.deepEqual(
      pauses.map(({ by }) => by),
      [{ who: 'ada', why: 'lunch' }],
    )
    await store.runs.change('r', { isPaused: false })
    assert.deepEqual((await store.laneRules()).pauses, [])
  },

  'a held lane names the task that a rate limit refused': async (store, advance) => {
    const [a = '', b = ''] = await add(store, { id: 'a' }, { id: 'b' })
    const first = await claimOne(store, { limit: 1 })
    const second = await claimOne(store, { limit: 1 })
    assert.deepEqual([first.id, second.id], [a, b])
    await settle(store, first, { type: 'deferred', delayMs: 10_000 })
    assert.equal((await laneOf(store, { kind: 'k' })).heldBy, a)
    await settle(store, second, { type: 'deferred', delayMs: 5000 })
    assert.equal((await laneOf(store, { kind: 'k' })).heldBy, a)
    await advance(10_000)
    assert.equal((await laneOf(store, { kind: 'k' })).heldBy, undefined)
  },

  'the longest of the holds that are settled together is the one that is named': async store => {
    await add(store, { id: 'a' }, { id: 'b' }, { id: 'c' })
    const tasks = [
      await claimOne(store, { limit: 1 }),
      await claimOne(store, { limit: 1 }),
      await claimOne(store, { limit: 1 }),
    ]
    const now = await store.now()
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w1' }
    await store.settle(
      tasks.map(({ id, token }, n) => ({
        id,
        token,
        outcome: { type: 'deferred', delayMs: [1000, 3000, 2000][n] ?? 0 },
        attempt,
      })),
    )
    assert.equal((await laneOf(store, { kind: 'k' })).heldBy, 'b')
  },

  'lanes that share a limit name the task that holds all of them': async store => {
    await store.limit({ kind: 'k' }, { isShared: true })
    const task = await start(store, { id: 'refused', key: 'own' })
    await addOne(store, { key: 'other' })
    await settle(store, task, { type: 'deferred', delayMs: 10_000 })
    assert.equal((await laneOf(store, { key: 'other' })).heldBy, 'refused')
  },

  'an ordered lane names the head that it waits for': async store => {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    const head = await start(store, { id: 'head' })
    await addOne(store, { id: 'behind' })
    await settle(store, head, { type: 'retry', delayMs: 10_000, isBackoff: true })
    assert.equal((await laneOf(store, { kind: 'k' })).heldBy, 'head')
  },
}
