import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { Enqueued, NewTask } from '../../src/store/index.js'
import type { StoreContract, UniqueKey } from '../../src/store/internal.js'
import { add, assertFields, claim, claimIds, claimOne, get, kill, type StoreBehaviours, settle } from './harness.js'

const DEDUPLICATE: UniqueKey = { key: 'a', while: 'unfinished', conflict: 'keep' }
const LATEST: UniqueKey = { key: 'a', while: 'unfinished', conflict: 'after' }
const REPLACE: UniqueKey = { key: 'a', while: 'unfinished', conflict: 'replace' }
const PENDING: UniqueKey = { key: 'a', while: 'waiting', conflict: 'keep' }
const THROTTLE: UniqueKey = { key: 'a', while: 'within', withinMs: 1000, conflict: 'keep' }
const DEBOUNCE: UniqueKey = { key: 'a', while: 'waiting', conflict: 'postpone', maxWaitMs: 10_000 }

async function ask(store: StoreContract, unique: UniqueKey, task: Partial<NewTask> = {}): Promise<Enqueued> {
  const [answer] = await store.enqueue([{ kind: 'k', payload: '{}', unique, ...task }])
  assert.ok(answer !== undefined)
  return answer
}

/** Asks for a task that may run in a second, if no other call comes. */
async function debounce(store: StoreContract, payload: string): Promise<Enqueued> {
  return ask(store, DEBOUNCE, { payload, runAt: (await store.now()) + 1000 })
}

const BY = { who: 'ada' }

/** A dead letter, and a task that has its key by now. */
async function letterAndTwin(store: StoreContract): Promise<[letter: string, twin: string]> {
  const { id } = await ask(store, DEDUPLICATE)
  await kill(store, await claimOne(store))
  return [id, (await ask(store, DEDUPLICATE)).id]
}

export const UNIQUE: StoreBehaviours = {
  async 'a second task with the same key is not added, and the answer is the first'(store, advance) {
    const since = await store.now()
    assert.deepEqual(await ask(store, DEDUPLICATE, { id: 'first' }), { id: 'first', isNew: true, outcome: 'created' })
    await advance(5)
    const kept = { id: 'first', isNew: false, outcome: 'kept', status: 'waiting', since }
    assert.deepEqual(await ask(store, DEDUPLICATE, { id: 'second' }), kept)
    assert.equal(await store.get('second'), undefined)
    assertFields(await get(store, 'first'), { unique: { key: 'a', while: 'unfinished' } })
    const { tasks } = await claim(store)
    assert.equal(tasks.length, 1)
    assert.deepEqual(await ask(store, DEDUPLICATE), { ...kept, status: 'running', since: since + 5 })
  },

  async 'a key that was handed on counts the longest wait from then'(store, advance) {
    await ask(store, LATEST)
    const first = await claimOne(store)
    assertFields(await ask(store, LATEST, { id: 'next' }), { outcome: 'queued_after' })
    await advance(500)
    await settle(store, first, { type: 'succeeded' })
    const now = await store.now()
    assertFields(await ask(store, { ...DEBOUNCE, maxWaitMs: 300 }, { runAt: now + 1000 }), { outcome: 'postponed' })
    assertFields(await get(store, 'next'), { nextAttemptAt: now + 300 })
  },

  async 'an id that is taken says what there is, and takes no key'(store, advance) {
    await store.enqueue([{ id: 'mine', kind: 'k', payload: '{}' }])
    await settle(store, await claimOne(store), { type: 'succeeded' })
    const since = await store.now()
    await advance(1)
    const there = { id: 'mine', isNew: false, outcome: 'kept', status: 'succeeded', since }
    assert.deepEqual(await ask(store, DEDUPLICATE, { id: 'mine' }), there)
    assert.deepEqual(await store.enqueue([{ id: 'mine', kind: 'k', payload: '{}' }]), [there])
    assertFields(await ask(store, DEDUPLICATE, { id: 'other' }), { outcome: 'created' })
    // A repeated call, whose answer was lost, finds its own task.
    assertFields(await ask(store, DEDUPLICATE, { id: 'other' }), { id: 'other', outcome: 'kept', status: 'waiting' })
  },

  async 'each kind has its own keys, and no two pairs of kind and key are alike'(store) {
    const pairs = [
      ['report', 'daily'],
      ['report', '_daily'],
      ['report_', 'daily'],
      ['other', 'daily'],
    ] as const
    for (const [kind, key] of pairs)
      assertFields(await ask(store, { ...DEDUPLICATE, key }, { kind }), { outcome: 'created' })
    for (const [kind, key] of pairs)
      assertFields(await ask(store, { ...DEDUPLICATE, key }, { kind }), { outcome: 'kept' })
    // Lanes have nothing to do with it.
    const lane = { kind: 'report', category: 'c', key: 'tenant' }
    assertFields(await ask(store, { ...DEDUPLICATE, key: 'daily' }, lane), { outcome: 'kept' })
  },

  async 'a task that is unfinished has its key through retries and losses, until it ends'(store, advance) {
    const ends = [
      { type: 'succeeded' },
      { type: 'skipped', reason: 'r' },
      { type: 'dead', reason: 'final_error' },
      { type: 'cancelled' },
    ] as const
    for (const end of ends) {
      assertFields(await ask(store, DEDUPLICATE), { outcome: 'created' })
      await settle(store, await claimOne(store), { type: 'retry', delayMs: 5, isBackoff: true })
      assertFields(await ask(store, DEDUPLICATE), { outcome: 'kept', status: 'waiting' })
      await advance(5)
      await settle(store, await claimOne(store), { type: 'released' })
      assertFields(await ask(store, DEDUPLICATE), { outcome: 'kept', status: 'waiting' })
      await settle(store, await claimOne(store), end)
    }
    assertFields(await ask(store, DEDUPLICATE), { outcome: 'created' })
  },

  async 'a task whose worker dies keeps its key'(store, advance) {
    const { id } = await ask(store, DEDUPLICATE)
    await claimOne(store, { leaseMs: 10 })
    await advance(20)
    assert.equal((await store.heartbeat({ worker: 'w2', leaseMs: 1000 })).rescued, 1)
    assertFields(await ask(store, DEDUPLICATE), { id, outcome: 'kept', status: 'waiting' })
    await settle(store, await claimOne(store, { worker: 'w2', isIdle: true }), { type: 'succeeded' })
    assertFields(await ask(store, DEDUPLICATE), { outcome: 'created' })
  },

  async 'many successes at once give their keys back'(store) {
    const tasks = Array.from({ length: 10 }, (_, n) => ({
      kind: 'k',
      payload: '{}',
      unique: { ...DEDUPLICATE, key: `k${n}` },
    }))
    for (let round = 0; round < 2; round++) {
      const added = await store.enqueue(tasks)
      assert.ok(added.every(({ outcome }) => outcome === 'created'))
      const { tasks: claimed } = await claim(store)
      const now = await store.now()
      const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w1' }
      await store.settle(claimed.map(({ id, token }) => ({ id, token, outcome: { type: 'succeeded' }, attempt })))
    }
  },

  async 'a cancelled task gives its key back'(store) {
    const first = await ask(store, DEDUPLICATE)
    await store.cancel([first.id])
    const second = await ask(store, DEDUPLICATE)
    assertFields(second, { outcome: 'created' })
    const running = await claimOne(store)
    await store.cancel([second.id])
    assertFields(await ask(store, DEDUPLICATE), { outcome: 'kept', status: 'running' })
    await settle(store, running, { type: 'retry', delayMs: 5, isBackoff: true })
    assertFields(await ask(store, DEDUPLICATE), { outcome: 'created' })
  },

  async 'a task that waits for its first attempt has its key until that begins, and never again'(store, advance) {
    const first = await ask(store, PENDING)
    assertFields(await ask(store, PENDING), { id: first.id, outcome: 'kept' })
    const claimed = await claimOne(store)
    const second = await ask(store, PENDING)
    assertFields(second, { outcome: 'created' })
    // Back from its attempt it meets its twin, and nothing happens.
    await settle(store, claimed, { type: 'retry', delayMs: 0, isBackoff: true })
    await advance(1)
    assert.deepEqual((await claimIds(store)).sort(), [first.id, second.id].sort())
    assertFields(await ask(store, PENDING), { outcome: 'created' })
  },

  async 'a retry does not get a key back that nobody has taken meanwhile'(store) {
    await ask(store, PENDING)
    await settle(store, await claimOne(store), { type: 'retry', delayMs: 5, isBackoff: true })
    assertFields(await ask(store, PENDING), { outcome: 'created' })
  },

  async 'a key that is taken for a time is taken whatever becomes of the task'(store, advance) {
    const { id } = await ask(store, THROTTLE)
    await settle(store, await claimOne(store), { type: 'succeeded' })
    assertFields(await ask(store, THROTTLE), { id, outcome: 'kept', status: 'succeeded' })
    await store.prune({ endedMs: 0 }, 100)
    assert.deepEqual(await ask(store, THROTTLE), { id, isNew: false, outcome: 'kept' })
    await advance(999)
    assertFields(await ask(store, THROTTLE), { outcome: 'kept' })
    await advance(1)
    assertFields(await ask(store, THROTTLE), { outcome: 'created' })
    await advance(1000)
    await store.prune({}, 100)
    assertFields(await ask(store, THROTTLE), { outcome: 'created' })
  },

  async 'a task that replaces one that waits cancels it, on record'(store) {
    const first = await ask(store, REPLACE, { payload: '1' })
    const second = await ask(store, REPLACE, { payload: '2' })
    assert.deepEqual(second, { id: second.id, isNew: true, outcome: 'replaced' })
    assertFields(await get(store, first.id), { status: 'cancelled', payload: '1' })
    const [row] = await store.ledger(first.id)
    assert.deepEqual([row?.outcome, row?.worker, row?.reason], ['cancelled', 'enqueue', `replaced by ${second.id}`])
    assert.deepEqual(await claimIds(store), [second.id])
  },

  async 'a task that replaces one that runs asks it to end, and waits until it has'(store, advance) {
    await ask(store, REPLACE)
    const running = await claimOne(store)
    const next = await ask(store, REPLACE)
    assertFields(next, { isNew: true, outcome: 'replaced' })
    assertFields(await get(store, next.id), { status: 'waiting', nextAttemptAt: undefined, isQueued: true })
    assert.deepEqual(await store.cancelled('w1'), [running.token])
    await advance(60_000)
    assert.deepEqual(await claimIds(store, { worker: 'w2' }), [])
    await settle(store, running, { type: 'retry', delayMs: 5, isBackoff: true })
    assert.deepEqual(await claimIds(store), [next.id])
    assertFields(await ask(store, DEDUPLICATE), { id: next.id, outcome: 'kept', status: 'running' })
  },

  async 'a task that comes after one that runs waits for its end, and the newest replaces those before'(
    store,
    advance,
  ) {
    await ask(store, LATEST, { payload: '1' })
    const running = await claimOne(store)
    const second = await ask(store, LATEST, { payload: '2' })
    const third = await ask(store, LATEST, { payload: '3' })
    for (const answer of [second, third]) assertFields(answer, { isNew: true, outcome: 'queued_after' })
    assertFields(await get(store, second.id), { status: 'cancelled' })
    await advance(1000)
    // Its own retries come first.
    await settle(store, running, { type: 'retry', delayMs: 50, isBackoff: true })
    assert.deepEqual(await claimIds(store), [])
    await advance(50)
    const again = await claimOne(store)
    assert.equal(again.payload, '1')
    const since = await store.now()
    await settle(store, again, { type: 'dead', reason: 'final_error' })
    assertFields(await get(store, third.id), { startedAt: since, nextAttemptAt: since, isQueued: undefined })
    assert.equal((await claimOne(store)).payload, '3')
    assertFields(await ask(store, LATEST), { outcome: 'queued_after' })
  },

  async 'a task that comes after one that has not begun replaces it'(store) {
    const first = await ask(store, LATEST, { payload: '1' })
    assertFields(await ask(store, LATEST, { payload: '2' }), { outcome: 'replaced' })
    assertFields(await get(store, first.id), { status: 'cancelled' })
    assert.equal((await claimOne(store)).payload, '2')
  },

  async 'a task that waits for its twin is due no sooner than it says'(store, advance) {
    await ask(store, LATEST)
    const running = await claimOne(store)
    const { id } = await ask(store, LATEST, { runAt: (await store.now()) + 500 })
    await settle(store, running, { type: 'succeeded' })
    assertFields(await get(store, id), { nextAttemptAt: (await store.now()) + 500 })
    await advance(499)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.deepEqual(await claimIds(store), [id])
  },

  async 'a task that waits for its twin and is cancelled leaves the key to that'(store) {
    const { id: first } = await ask(store, LATEST)
    const running = await claimOne(store)
    const { id } = await ask(store, LATEST)
    await store.cancel([id])
    assertFields(await ask(store, DEDUPLICATE), { id: first, outcome: 'kept' })
    await settle(store, running, { type: 'succeeded' })
    assert.deepEqual(await claimIds(store), [])
    assertFields(await ask(store, DEDUPLICATE), { outcome: 'created' })
  },

  async 'a task whose time to live ends while nobody runs it gives its key back, and lets the task run that waited'(
    store,
  ) {
    const { id: first } = await ask(store, LATEST)
    await settle(store, await claimOne(store), { type: 'retry', delayMs: 5, isBackoff: true })
    const { id: second } = await ask(store, LATEST)
    const expire = async (id: string) => {
      const { changedAt } = await get(store, id)
      assert.deepEqual(await store.lifetimes.expire([{ id, changedAt }]), [id])
    }
    await expire(first)
    assertFields(await get(store, first), { status: 'dead', reason: 'ttl_expired' })
    assertFields(await ask(store, DEDUPLICATE), { id: second, outcome: 'kept' })
    assertFields(await get(store, second), { status: 'waiting', isQueued: undefined })
    assert.deepEqual(await store.redrive([first], BY), [])
    await expire(second)
    const { id: third, outcome } = await ask(store, DEDUPLICATE)
    assert.equal(outcome, 'created')
    assert.deepEqual(await claimIds(store), [third])
  },

  async 'both of a pair can be cancelled at once'(store) {
    const { id: first } = await ask(store, LATEST)
    await settle(store, await claimOne(store), { type: 'retry', delayMs: 5, isBackoff: true })
    const { id: second } = await ask(store, LATEST)
    assert.deepEqual((await store.cancel([first, second])).sort(), [first, second].sort())
    assertFields(await ask(store, DEDUPLICATE), { outcome: 'created' })
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'a debounced task runs when nobody has asked for a while, with what was asked for last'(store, advance) {
    const { id } = await debounce(store, '1')
    await advance(600)
    assertFields(await debounce(store, '2'), { id, isNew: false, outcome: 'postponed', status: 'waiting' })
    await advance(999)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.equal((await claimOne(store)).payload, '2')
    assertFields(await debounce(store, '3'), { outcome: 'created' })
  },

  async 'a debounced task under steady traffic runs when it has waited for long enough'(store, advance) {
    const began = await store.now()
    const { id } = await debounce(store, '0')
    let ranAt: number | undefined
    for (let n = 1; ranAt === undefined && n <= 40; n++) {
      await advance(500)
      if ((await claimIds(store)).includes(id)) ranAt = (await store.now()) - began
      else assertFields(await debounce(store, String(n)), { id, outcome: 'postponed' })
    }
    assert.equal(ranAt, 10_000)
    assertFields(await get(store, id), { payload: '19', status: 'running' })
  },

  async 'a task that another scope holds unfinished cannot be postponed: the new one waits'(store) {
    await ask(store, DEDUPLICATE)
    const running = await claimOne(store)
    const { id, outcome } = await debounce(store, '2')
    assert.equal(outcome, 'queued_after')
    await settle(store, running, { type: 'succeeded' })
    assert.ok((await get(store, id)).nextAttemptAt !== undefined)
  },

  async 'of tasks with the same key in one call, the later ones meet the first'(store) {
    const tasks = (unique: UniqueKey) => ['1', '2', '3'].map(payload => ({ kind: 'k', payload, unique }))
    const outcomes = async (...all: NewTask[]) => (await store.enqueue(all)).map(({ outcome }) => outcome)
    const plain = { kind: 'k', payload: '0' }
    assert.deepEqual(await outcomes(plain, ...tasks(DEDUPLICATE), plain), [
      'created',
      'created',
      'kept',
      'kept',
      'created',
    ])
    const other = { ...REPLACE, key: 'b' }
    assert.deepEqual(await outcomes(...tasks(other), plain), ['created', 'replaced', 'replaced', 'created'])
    const payloads = (await claim(store)).tasks.map(({ payload }) => payload)
    assert.deepEqual(payloads.sort(), ['0', '0', '0', '1', '3'])
    // All have taken theirs, and the ids of some are taken too.
    const named = { id: 'x', kind: 'k', payload: '9', unique: { ...DEDUPLICATE, key: 'c' } }
    assert.deepEqual(await outcomes(named, named, { ...named, id: 'y' }, tasks(DEDUPLICATE)[0] as NewTask), [
      'created',
      'kept',
      'kept',
      'kept',
    ])
  },

  async 'in one call, keys that others had are as good as new ones'(store, advance) {
    const keyed = (unique: UniqueKey, key: string) => ({ kind: 'k', payload: '{}', unique: { ...unique, key } })
    await store.enqueue([keyed(THROTTLE, 'a'), keyed(PENDING, 'b')])
    await claim(store)
    await advance(1000)
    const outcomes = (await store.enqueue([keyed(THROTTLE, 'a'), keyed(PENDING, 'b')])).map(({ outcome }) => outcome)
    assert.deepEqual(outcomes, ['created', 'created'])
  },

  async 'of tasks with the same id in one call, the first is added whose key is free'(store) {
    await ask(store, DEDUPLICATE, { id: 'there' })
    const task = (id: string, key: string) => ({ id, kind: 'k', payload: '{}', unique: { ...DEDUPLICATE, key } })
    const answers = await store.enqueue([
      task('x', 'c'),
      task('x', 'b'),
      task('y', 'a'),
      task('y', 'd'),
      task('z', 'c'),
    ])
    assert.deepEqual(
      answers.map(({ id, outcome }) => [id, outcome]),
      [
        ['x', 'created'],
        ['x', 'kept'],
        ['there', 'kept'],
        ['y', 'created'],
        ['x', 'kept'],
      ],
    )
  },

  async 'concurrent calls with one key add one task'(store) {
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(store, DEDUPLICATE)))
    const [first] = answers
    assert.equal(answers.filter(({ outcome }) => outcome === 'created').length, 1)
    assert.ok(answers.every(({ id }) => id === first?.id))
    assert.equal((await store.count({})).waiting, 1)
  },

  async 'concurrent calls that replace leave one task'(store) {
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(store, REPLACE)))
    assert.equal(answers.filter(({ outcome }) => outcome === 'created').length, 1)
    assert.deepEqual(await store.count({}), { ...(await store.count({})), waiting: 1, cancelled: 19 })
  },

  async 'a task in an ordered lane keeps the order'(store) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    const lane = { category: 'c', key: 'tenant' }
    await ask(store, LATEST, { ...lane, payload: '1' })
    const running = await claimOne(store)
    assertFields(await ask(store, LATEST, { ...lane, payload: '2' }), { outcome: 'queued_after' })
    await store.enqueue([{ kind: 'k', ...lane, payload: '3' }])
    await settle(store, running, { type: 'succeeded' })
    for (const payload of ['2', '3']) {
      const task = await claimOne(store)
      assert.equal(task.payload, payload)
      await settle(store, task, { type: 'succeeded' })
    }
  },

  async 'tasks that have failed are dead without their key'(store) {
    const { id } = await ask(store, DEDUPLICATE)
    await kill(store, await claimOne(store))
    assertFields(await get(store, id), { status: 'dead', unique: { key: 'a', while: 'unfinished' } })
    assertFields(await ask(store, DEDUPLICATE), { outcome: 'created' })
    await store.discard([id], { who: 'ada', why: 'old' })
    assertFields(await ask(store, DEDUPLICATE), { outcome: 'kept' })
  },

  async 'a redrive gives a task its key back'(store) {
    const { id } = await ask(store, DEDUPLICATE)
    await kill(store, await claimOne(store))
    assert.deepEqual(await store.redrive([id], BY), [id])
    assertFields(await ask(store, DEDUPLICATE), { id, outcome: 'kept', status: 'waiting' })
    await settle(store, await claimOne(store), { type: 'succeeded' })
    assertFields(await ask(store, DEDUPLICATE), { outcome: 'created' })
  },

  async 'a dead letter whose twin lives stays where it is'(store) {
    const [letter, twin] = await letterAndTwin(store)
    assert.deepEqual(await store.redrive([letter], BY), [])
    assertFields(await get(store, letter), { status: 'dead' })
    await settle(store, await claimOne(store), { type: 'succeeded' })
    assert.deepEqual(await store.redrive([letter], BY), [letter])
    assertFields(await get(store, twin), { status: 'succeeded' })
  },

  async 'of two dead letters with the same key, one is redriven'(store) {
    const letters: string[] = []
    for (let n = 0; n < 2; n++) {
      letters.push((await ask(store, DEDUPLICATE)).id)
      await kill(store, await claimOne(store))
    }
    assert.deepEqual(await store.redrive(letters, BY), letters.slice(0, 1))
  },

  async 'a dead letter can replace its twin, whether that waits or runs'(store) {
    const [letter, twin] = await letterAndTwin(store)
    assert.deepEqual(await store.redrive([letter], BY, { twin: 'replace' }), [letter])
    assertFields(await get(store, twin), { status: 'cancelled' })
    await kill(store, await claimOne(store))
    await ask(store, DEDUPLICATE)
    const running = await claimOne(store)
    assert.deepEqual(await store.redrive([letter], BY, { twin: 'replace' }), [letter])
    assertFields(await get(store, letter), { status: 'waiting', isQueued: true })
    assert.deepEqual(await store.cancelled('w1'), [running.token])
    await settle(store, running, { type: 'cancelled' })
    assert.deepEqual(await claimIds(store), [letter])
  },

  async 'a dead letter can wait for its twin to end, and cancels nothing'(store) {
    const [letter, twin] = await letterAndTwin(store)
    assert.deepEqual(await store.redrive([letter], BY, { twin: 'after' }), [letter])
    assertFields(await get(store, letter), { status: 'waiting', isQueued: true, nextAttemptAt: undefined })
    const running = await claimOne(store)
    assert.equal(running.id, twin)
    await settle(store, running, { type: 'succeeded' })
    assert.deepEqual(await claimIds(store), [letter])
  },

  async 'a task without a key that was enqueued beside twins is redriven like any other'(store) {
    await ask(store, DEDUPLICATE)
    const [, plain = ''] = await add(store, { unique: DEDUPLICATE }, {})
    assertFields(await get(store, plain), { unique: undefined })
    for (const task of (await claim(store)).tasks) await kill(store, task)
    assert.deepEqual(await store.redrive([plain], BY), [plain])
  },

  async 'one letter waits for a twin, and a newer task goes before it'(store) {
    const [letter] = await letterAndTwin(store)
    const running = await claimOne(store)
    assert.deepEqual(await store.redrive([letter], BY, { twin: 'after' }), [letter])
    assertFields(await ask(store, LATEST), { outcome: 'queued_after' })
    assertFields(await get(store, letter), { status: 'cancelled' })
    await settle(store, running, { type: 'succeeded' })
  },

  async 'an operation counts the letters whose twins live, and its plan says so'(store) {
    const [letter] = await letterAndTwin(store)
    const survey = await store.operations.survey('redrive', { filter: { kind: 'k' }, until: await store.now() })
    assert.deepEqual(
      survey.map(({ hasTwin, count }) => [hasTwin, count]),
      [[true, 1]],
    )
    assert.deepEqual(await store.operations.survey('redrive', { ids: [letter] }), survey)
    const living = await store.operations.survey('cancel', { filter: { kind: 'k' }, until: await store.now() })
    assert.deepEqual(
      living.map(({ hasTwin }) => hasTwin),
      [false],
    )
    const { id } = await store.operations.create({ act: 'redrive', set: { ids: [letter] }, by: BY })
    const { items } = await store.operations.members(id, { limit: 10 })
    assert.equal(items[0]?.twin !== undefined, true)
    const taken = await store.operations.take(id, 'd', 1000)
    const step = { progress: { ...taken?.operation.progress }, move: [letter] }
    const stepped = await store.operations.step(id, taken?.token ?? '', step as never)
    assert.deepEqual(stepped?.moved, [])
  },

  async 'a task that waits for its twin cannot be made due'(store) {
    await ask(store, LATEST)
    await claimOne(store)
    const { id: queued } = await ask(store, LATEST)
    const { id } = await store.operations.create({ act: 'promote', set: { ids: [queued] }, by: BY })
    const taken = await store.operations.take(id, 'd', 1000)
    const step = { progress: { ...taken?.operation.progress }, move: [queued] }
    assert.deepEqual((await store.operations.step(id, taken?.token ?? '', step as never))?.moved, [])
    assert.deepEqual(await claimIds(store), [])
  },

  async 'the undo of a redrive gives the key back, and lets the task run that waited'(store) {
    const { id: letter } = await ask(store, DEDUPLICATE)
    await kill(store, await claimOne(store))
    const { id } = await store.operations.create({ act: 'redrive', set: { ids: [letter] }, by: BY })
    const taken = await store.operations.take(id, 'd', 1000)
    const progress = { ...taken?.operation.progress, isRead: true }
    const step = { progress, move: [letter], status: 'done' }
    const stepped = await store.operations.step(id, taken?.token ?? '', step as never)
    assert.deepEqual(stepped?.moved, [letter])
    assertFields(await ask(store, DEDUPLICATE), { id: letter, outcome: 'kept' })
    assert.equal((await store.operations.undo(id, { limit: 10 }, BY)).undone, 1)
    assertFields(await get(store, letter), { status: 'dead' })
    assertFields(await ask(store, DEDUPLICATE), { outcome: 'created' })
  },

  async 'a letter that a debounce has changed since its redrive is not put back'(store, advance) {
    const { id: letter } = await ask(store, DEDUPLICATE, { payload: '{"n":1}' })
    await kill(store, await claimOne(store))
    const set = { ids: [letter] }
    const { id } = await store.operations.create({ act: 'redrive', set, by: BY, settings: { patch: { n: 2 } } })
    const taken = await store.operations.take(id, 'd', 1000)
    const step = { progress: { ...taken?.operation.progress, isRead: true }, move: [letter], status: 'done' }
    await store.operations.step(id, taken?.token ?? '', step as never)
    assertFields(await get(store, letter), { payload: '{"n":2}' })
    await advance(5)
    const now = await store.now()
    assertFields(await debounce(store, '{"n":3}'), { id: letter, outcome: 'postponed', since: now })
    assert.equal((await store.operations.undo(id, { limit: 10 }, BY)).undone, 0)
    assertFields(await get(store, letter), { status: 'waiting', payload: '{"n":3}', changedAt: now })
  },

  async 'combinations that make no sense are refused'(store) {
    const now = await store.now()
    const refused: [Partial<UniqueKey>, Partial<NewTask>, RegExp][] = [
      [{ key: '' }, {}, /must not be empty/],
      [{ key: 'x'.repeat(513) }, {}, /at most 512 bytes/],
      [{ while: 'always' as never }, {}, /must be one of waiting, unfinished, within/],
      [{ conflict: 'drop' as never }, {}, /must be one of keep, replace, postpone, after/],
      [{ while: 'waiting', conflict: 'after' }, {}, /use while: 'unfinished'/],
      [{ conflict: 'postpone', maxWaitMs: 5 }, { runAt: now }, /use while: 'waiting'/],
      [{ while: 'within' }, {}, /needs 'unique.within'/],
      [{ while: 'within', withinMs: 0 }, {}, /above 0/],
      [{ while: 'within', withinMs: 5, conflict: 'replace' }, {}, /cannot have conflict: 'replace'/],
      [{ withinMs: 5 }, {}, /goes with while: 'within' only/],
      [{ while: 'waiting', conflict: 'postpone' }, { runAt: now }, /needs 'unique.maxWait'/],
      [{ while: 'waiting', conflict: 'postpone', maxWaitMs: 5 }, {}, /needs a 'delay' or a 'runAt'/],
      [{ maxWaitMs: 5 }, {}, /goes with conflict: 'postpone' only/],
      [{ until: 5 } as never, {}, /takes no 'until'/],
    ]
    for (const [part, task, message] of refused)
      await assert.rejects(ask(store, { ...DEDUPLICATE, ...part }, task), error => {
        assert.ok(error instanceof OptionError)
        assert.match(error.message, message)
        return true
      })
    assert.equal((await store.count({})).waiting, 0)
  },
}
