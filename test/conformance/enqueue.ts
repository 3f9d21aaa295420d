import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import {
  add,
  addOne,
  assertFields,
  assertSame,
  claim,
  claimIds,
  claimOne,
  get,
  kill,
  LEASE_MS,
  type StoreBehaviours,
  settle,
  start,
} from './harness.js'

/** A unique key of a task that is kept as it is. */
function keep(key: string) {
  return { key, while: 'unfinished', conflict: 'keep' } as const
}

export const ENQUEUE: StoreBehaviours = {
  async 'a new task waits, with the defaults, due now'(store) {
    const now = await store.now()
    const id = await addOne(store, { payload: '{"a":1}' })
    assertFields(await get(store, id), {
      id,
      kind: 'k',
      category: '',
      key: '',
      payload: '{"a":1}',
      status: 'waiting',
      priority: 0,
      submittedAt: now,
      startedAt: now,
      nextAttemptAt: now,
      changedAt: now,
      attempts: 0,
      deferrals: 0,
      losses: 0,
      previousDelayMs: undefined,
      errorClass: undefined,
      errorCode: undefined,
      errorMessage: undefined,
      reason: undefined,
      result: undefined,
    })
    assert.deepEqual(await store.ledger(id), [])
  },

  async 'everything that is said of a task is kept'(store) {
    const now = await store.now()
    const task = { id: 'mine', kind: 'k', category: 'c', key: 'tenant', payload: '[]', priority: -3 }
    await add(store, { ...task, submittedAt: now - 5000, runAt: now + 7000 })
    assertFields(await get(store, 'mine'), {
      ...task,
      submittedAt: now - 5000,
      // Its time to live begins when it is due.
      startedAt: now + 7000,
      nextAttemptAt: now + 7000,
    })
  },

  async 'a policy of its own comes with each claim of a task, and stays with it'(store, advance) {
    const own = '{"attempts":7}'
    await add(store, { id: 'a' }, { id: 'b', policy: own }, { id: 'c', policy: own, unique: keep('u') })
    await addOne(store, { id: 'd', policy: own })
    await addOne(store, { id: 'e', policy: own, unique: keep('v') })
    // One by one, since one of the keys is taken.
    await add(store, { policy: '{}', unique: keep('v') }, { id: 'f', policy: own, unique: keep('w') })
    const { tasks } = await claim(store)
    const ids = ['a', 'b', 'c', 'd', 'e', 'f']
    const policies = ids.map(id => [id, id === 'a' ? undefined : own])
    assert.deepEqual(
      tasks.map(({ id, policy }) => [id, policy]),
      policies,
    )
    for (const task of tasks.slice(0, 2)) await settle(store, task, { type: 'retry', delayMs: 0, isBackoff: true })
    for (const task of tasks.slice(2, 4)) await kill(store, task)
    await store.redrive(['c'], { who: 'ann' })
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'rescuer', leaseMs: LEASE_MS })
    const again = await claim(store, { isIdle: true })
    assertSame(
      again.tasks.map(({ id, policy = 'none' }) => `${id} ${policy}`),
      ['a none', `b ${own}`, `c ${own}`, `e ${own}`, `f ${own}`],
    )
    assert.deepEqual(await Promise.all(ids.map(async id => [id, (await get(store, id)).policy])), policies)
    assert.deepEqual(
      (await store.list({ status: 'dead' }, { limit: 9 })).items.map(({ policy }) => policy),
      [own],
    )
  },

  async 'an id of any characters is kept as it is, or refused'(store) {
    const ids = [
      '',
      ' ',
      'a"b',
      'a\\b',
      '{a,b}',
      'NULL',
      'a\nb',
      "it's",
      '__proto__',
      'é 😀',
      'a\0b',
      '\ud800',
      'x'.repeat(1000),
    ]
    for (const id of ids) {
      const isRefused = await store.enqueue([{ id, kind: 'k', key: id, payload: '1' }]).then(
        () => false,
        error => error instanceof OptionError,
      )
      if (isRefused) continue
      const task = await claimOne(store)
      assert.deepEqual([task.id, task.key], [id, id])
      assert.equal(await settle(store, task, { type: 'succeeded' }), 'settled')
      assertFields(await get(store, id), { id, key: id, status: 'succeeded' })
    }
  },

  async 'a payload comes back to the byte'(store) {
    const payloads = ['', 'null', '{\n\t"b":1,"a":"\\n" }', '{"__proto__":1}', '"\\u0000 \\ud800"', `"é 😀 ' \\\\ %"`]
    const ids = await add(store, ...payloads.map(payload => ({ payload })), { payload: `"${'x'.repeat(1_000_000)}"` })
    for (const [index, payload] of payloads.entries())
      assert.equal((await get(store, ids[index] ?? '')).payload, payload)
    assert.equal((await get(store, ids.at(-1) ?? '')).payload.length, 1_000_002)
  },

  async 'a batch is answered in its order, new and known ids mixed'(store) {
    await add(store, { id: 'b' })
    const results = await store.enqueue(['a', 'b', 'c', 'a'].map(id => ({ id, kind: 'k', payload: '{}' })))
    assert.deepEqual(results, [
      { id: 'a', isNew: true, outcome: 'created' },
      { id: 'b', isNew: false, outcome: 'kept', status: 'waiting', since: await store.now() },
      { id: 'c', isNew: true, outcome: 'created' },
      { id: 'a', isNew: false, outcome: 'kept', status: 'waiting', since: await store.now() },
    ])
    assert.equal((await store.count({})).waiting, 3)
  },

  async 'an own id enqueued twice changes nothing, wherever the first one is in its life'(store) {
    const again = () => store.enqueue([{ id: 'mine', kind: 'other', payload: '2', priority: 9 }])
    await add(store, { id: 'mine', payload: '1' })
    const since = await store.now()
    const kept = { id: 'mine', isNew: false, outcome: 'kept', since }
    assert.deepEqual(await again(), [{ ...kept, status: 'waiting' }])
    const task = await claimOne(store)
    assert.deepEqual(await again(), [{ ...kept, status: 'running' }])
    await settle(store, task, { type: 'succeeded' })
    assert.deepEqual(await again(), [{ ...kept, status: 'succeeded' }])
    assertFields(await get(store, 'mine'), { kind: 'k', payload: '1', priority: 0, status: 'succeeded' })
    assert.equal((await store.ledger('mine')).length, 1)

    await kill(store, await start(store, { id: 'dead' }))
    const [dead] = await store.enqueue([{ id: 'dead', kind: 'k', payload: '{}' }])
    assert.deepEqual(dead, { ...kept, id: 'dead', status: 'dead' })
    assert.deepEqual(await claimIds(store, { kinds: ['k', 'other'] }), [])
  },

  async 'of 20 concurrent enqueues with one id one is new'(store) {
    const enqueue = () => store.enqueue([{ id: 'mine', kind: 'k', payload: '{}' }])
    const results = (await Promise.all(Array.from({ length: 20 }, enqueue))).flat()
    assert.equal(results.filter(({ isNew }) => isNew).length, 1)
    assert.deepEqual(await claimIds(store), ['mine'])
  },

  async 'ids that are made up differ, and are ordered as they were enqueued'(store, advance) {
    const ids = await add(store, ...Array.from({ length: 50 }, () => ({})))
    await advance(1)
    ids.push(...(await add(store, {}, {})))
    assert.equal(new Set(ids).size, 52)
    assert.deepEqual([...ids].sort(), ids)
    assert.deepEqual(await claimIds(store), ids)
  },

  async 'ids are compared exactly'(store) {
    const ids = ['k', 'K', 'k ', ' k', 'k%', 'k_', "k'", 'é', 'e\u0301', '😀', '0', '00']
    const added = await store.enqueue(ids.map(id => ({ id, kind: 'k', payload: '{}' })))
    assert.deepEqual(
      added,
      ids.map(id => ({ id, isNew: true, outcome: 'created' })),
    )
    for (const id of ids) assert.equal((await get(store, id)).id, id)
  },

  async 'a task with a time is not claimed before it, and exactly then is due'(store, advance) {
    const id = await addOne(store, { runAt: (await store.now()) + 1000 })
    assert.deepEqual(await claimIds(store), [])
    await advance(999)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.deepEqual(await claimIds(store), [id])
  },

  async 'a time that is over is at once'(store) {
    const id = await addOne(store, { runAt: (await store.now()) - 1000 })
    assert.deepEqual(await claimIds(store), [id])
  },

  async 'an empty batch does nothing'(store) {
    assert.deepEqual(await store.enqueue([]), [])
  },

  async 'kinds, categories and keys hold any text'(store) {
    const lane = { kind: "k'; --", category: '[",\\%_', key: '\u0001/é 😀' }
    const id = await addOne(store, lane)
    assertFields(await get(store, id), lane)
    assert.deepEqual(await claimIds(store, { kinds: [lane.kind], categories: [lane.category] }), [id])
  },

  async 'a task that was tried elsewhere waits for its retry, with that attempt on its ledger'(store, advance) {
    const now = await store.now()
    const verdict = { class: 'retryable', code: 'E_BUSY' } as const
    const attempt = { attempt: 1, startedAt: now - 5, endedAt: now - 1, worker: 'elsewhere', verdict, error: 'busy' }
    const outcome = { type: 'retry', delayMs: 1000, isBackoff: true } as const
    const id = await addOne(store, { tried: { outcome, attempt } })
    const waits = { status: 'waiting', attempts: 1, nextAttemptAt: now + 1000, previousDelayMs: 1000 } as const
    assertFields(await get(store, id), { ...waits, startedAt: now - 4, errorCode: 'E_BUSY', errorMessage: 'busy' })
    assertFields((await store.ledger(id))[0], { ...attempt, sequence: 1, outcome: 'retry', delayMs: 1000 })

    assert.deepEqual(await claimIds(store), [])
    await advance(1000)
    assertFields(await claimOne(store), { id, attempts: 1 })
  },

  async 'a task that was tried elsewhere may be dead, and is redriven like any other'(store) {
    const now = await store.now()
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'elsewhere' }
    const tried = { outcome: { type: 'dead', reason: 'final_error' }, attempt } as const
    const id = await addOne(store, { id: 'a', tried })
    assertFields(await get(store, id), { status: 'dead', attempts: 1, reason: 'final_error' })
    const [again] = await store.enqueue([{ id, kind: 'k', payload: '{}', tried }])
    assertFields(again, { id, isNew: false, status: 'dead', since: now })
    assert.equal((await store.ledger(id)).length, 1, 'what is there already stays as it is')
    assert.deepEqual(await store.redrive([id], { who: 'ada' }), [id])
    assertFields(await claimOne(store), { id, attempts: 0 })
  },

  async 'a task that a rate limit deferred elsewhere holds its lane'(store, advance) {
    const now = await store.now()
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'elsewhere' }
    await add(store, { id: 'a', tried: { outcome: { type: 'deferred', delayMs: 500 }, attempt } }, { id: 'b' })
    assertFields(await get(store, 'a'), { attempts: 0, deferrals: 1 })
    assert.deepEqual(await claimIds(store), [])
    await advance(500)
    assert.equal((await claimIds(store)).length, 1, 'afterwards it starts with one')
  },
}
