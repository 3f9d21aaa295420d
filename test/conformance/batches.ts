import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { BatchEndTask, StoreContract } from '../../src/store/internal.js'
import { add, claim, claimOne, get, kill, LEASE_MS, type StoreBehaviours, settle, start } from './harness.js'
import { createRedrive, move, take } from './operation-harness.js'

const ON_END: BatchEndTask = { kind: 'end', category: 'c', key: 'acme', payload: '{"to":"ada"}' }

const BY = { who: 'ada', why: 'fixed' }

/** Fills a batch with tasks of kind `k`, and closes it. */
function fill(store: StoreContract, name: string, count: number, onEnd: BatchEndTask | undefined = ON_END) {
  const tasks = Array.from({ length: count }, (_, n) => ({ kind: 'k', payload: `${n}` }))
  return store.batches.fill(name, { position: 0, tasks, isEnd: true, onEnd })
}

/** Claims all members and lets them succeed, but for this many, which die. */
async function work(store: StoreContract, { dead = 0 } = {}): Promise<void> {
  for (const [n, task] of (await claim(store)).tasks.entries()) {
    if (n < dead) await kill(store, task)
    else await settle(store, task, { type: 'succeeded' })
  }
}

async function statusOf(store: StoreContract, name: string) {
  const batch = await store.batches.get(name)
  assert.ok(batch !== undefined, `the batch ${name} should be there`)
  const { status, endings, counts } = batch
  const { waiting, running, succeeded, skipped, dead, cancelled } = counts
  return { status, endings, counts: [waiting, running, succeeded, skipped, dead, cancelled] }
}

async function membersOf(store: StoreContract, name: string): Promise<string[]> {
  return (await store.batches.members(name, undefined, { limit: 1000 })).items.map(({ id }) => id)
}

async function audited(store: StoreContract): Promise<string[]> {
  const { items } = await store.audit.page({ limit: 100 })
  return items.map(record => JSON.parse(record).event_type)
}

/** Batches: plain tasks that were enqueued together, and end together. */
export const BATCHES: StoreBehaviours = {
  async 'members are tasks of their kind, and the batch counts them'(store) {
    assert.deepEqual(await fill(store, 'b', 3), { added: 3, isFull: false })
    const ids = ['batch:b:000000000000', 'batch:b:000000000001', 'batch:b:000000000002']
    assert.deepEqual(await membersOf(store, 'b'), ids)
    assert.deepEqual(await statusOf(store, 'b'), { status: 'running', endings: 0, counts: [3, 0, 0, 0, 0, 0] })
    const { tasks } = await claim(store, { limit: 2 })
    assert.deepEqual(
      tasks.map(({ id, kind, payload }) => [id, kind, payload]),
      [
        [ids[0], 'k', '0'],
        [ids[1], 'k', '1'],
      ],
    )
    const [first, second] = tasks
    assert.ok(first && second)
    await settle(store, first, { type: 'skipped', reason: 'r' })
    await kill(store, second)
    assert.deepEqual(await statusOf(store, 'b'), { status: 'running', endings: 0, counts: [1, 0, 0, 1, 1, 0] })
    const tally = await store.batches.tally('b')
    assert.deepEqual(
      tally.filter(({ status }) => status === 'dead'),
      [{ status: 'dead', kind: 'k', errorCode: 'E_BAD', count: 1 }],
    )
    for (const [status, found] of [
      ['waiting', ids[2]],
      ['skipped', ids[0]],
      ['dead', ids[1]],
    ] as const) {
      const { items } = await store.batches.members('b', status, { limit: 10 })
      assert.deepEqual(
        items.map(({ id }) => id),
        [found],
      )
    }
    assert.deepEqual((await store.batches.members('b', 'running', { limit: 10 })).items, [])
  },

  async 'the check that finds the last member ended enqueues the task that follows, once'(store) {
    await fill(store, 'b', 3)
    assert.equal(await store.batches.check('b'), 'batch:b:000000000000')
    await work(store, { dead: 1 })
    assert.equal((await store.batches.get('b'))?.endedAt, undefined)
    await Promise.all([1, 2, 3].map(() => store.batches.check('b')))
    const counts = { succeeded: 2, skipped: 0, dead: 1, cancelled: 0 }
    assert.deepEqual(await statusOf(store, 'b'), {
      status: 'partial_success',
      endings: 1,
      counts: [0, 0, 2, 0, 1, 0],
    })
    const task = await claimOne(store, { kinds: ['end'] })
    assert.deepEqual([task.id, task.category, task.key], ['batch-end:b:1', 'c', 'acme'])
    const payload = { batch: 'b', status: 'partial_success', counts, ending: 1, payload: { to: 'ada' } }
    assert.deepEqual(JSON.parse(task.payload), payload)
    assert.equal(await store.batches.check('b'), undefined)
    assert.deepEqual((await claim(store, { kinds: ['end'] })).tasks, [])
  },

  async 'a batch ends as completed, as a partial success, or as failed'(store) {
    const cases = [
      ['all', 2, 0, 'completed'],
      ['some', 2, 1, 'partial_success'],
      ['none', 2, 2, 'failed'],
      ['empty', 0, 0, 'completed'],
    ] as const
    for (const [name, count, dead, status] of cases) {
      await fill(store, name, count)
      await work(store, { dead })
      await store.batches.check(name)
      assert.equal((await statusOf(store, name)).status, status)
      assert.equal(JSON.parse((await get(store, `batch-end:${name}:1`)).payload).status, status)
    }
  },

  async 'an empty batch ends at once, and a batch without a task that follows just ends'(store) {
    await fill(store, 'b', 0)
    assert.equal((await claimOne(store, { kinds: ['end'] })).id, 'batch-end:b:1')
    await store.batches.fill('c', { position: 0, tasks: [], isEnd: true })
    assert.equal((await statusOf(store, 'c')).status, 'completed')
  },

  async 'a batch is filled in chunks, none of which counts twice, and does not end before the last'(store) {
    const chunk = (position: number, isEnd: boolean) => ({
      position,
      tasks: [0, 1].map(n => ({ kind: 'k', payload: `${position + n}` })),
      isEnd,
      onEnd: ON_END,
    })
    assert.deepEqual(await store.batches.fill('b', chunk(0, false)), { added: 2, isFull: false })
    await work(store)
    assert.equal(await store.batches.check('b'), undefined)
    assert.equal((await statusOf(store, 'b')).status, 'filling')
    assert.deepEqual(await store.batches.fill('b', chunk(0, false)), { added: 0, isFull: false })
    assert.deepEqual(await store.batches.fill('b', chunk(2, true)), { added: 2, isFull: false })
    assert.deepEqual(await store.batches.fill('b', chunk(4, true)), { added: 0, isFull: true })
    assert.equal((await membersOf(store, 'b')).length, 4)
    await work(store)
    await store.batches.check('b')
    assert.equal((await statusOf(store, 'b')).status, 'completed')
    assert.deepEqual(await store.batches.fill('b', chunk(4, true)), { added: 0, isFull: true })
  },

  async 'a batch whose producer is gone is closed by hand, on record'(store) {
    const tasks = [{ kind: 'k', payload: '0' }]
    await store.batches.fill('b', { position: 0, tasks, isEnd: false, onEnd: ON_END })
    await work(store)
    await store.batches.close('b', BY)
    assert.deepEqual(await statusOf(store, 'b'), { status: 'completed', endings: 1, counts: [0, 0, 1, 0, 0, 0] })
    await store.batches.close('b', BY)
    assert.deepEqual(await audited(store), ['batch_closed'])
  },

  async 'the end of the time to live of its last members ends a batch'(store) {
    await fill(store, 'b', 2)
    const tasks = await Promise.all((await membersOf(store, 'b')).map(id => get(store, id)))
    const places = tasks.map(({ id, changedAt }) => ({ id, changedAt }))
    await store.lifetimes.expire(places.slice(0, 1))
    assert.equal((await statusOf(store, 'b')).status, 'running')
    await store.lifetimes.expire(places)
    assert.deepEqual(await statusOf(store, 'b'), { status: 'failed', endings: 1, counts: [0, 0, 0, 0, 2, 0] })
    assert.equal((await get(store, 'batch-end:b:1')).status, 'waiting')
  },

  async 'a member with a unique key is refused, and nothing is added'(store) {
    const unique = { key: 'a', while: 'unfinished', conflict: 'keep' } as const
    const task = { kind: 'k', payload: '0' }
    const isRefused = (error: unknown) => {
      assert.ok(error instanceof OptionError)
      assert.match(error.message, /A task of a batch, here a 'k', cannot have a unique key/)
      return true
    }
    const tasks = [task, { ...task, unique }]
    await assert.rejects(store.batches.fill('b', { position: 0, tasks, isEnd: true, onEnd: ON_END }), isRefused)
    assert.equal(await store.batches.get('b'), undefined)
    await fill(store, 'b', 1)
    const id = 'batch:b:000000000000.000001'
    await assert.rejects(store.batches.grow('b', [{ ...task, id, unique }]), isRefused)
    assert.equal((await membersOf(store, 'b')).length, 1)
  },

  async 'a member adds others while it runs, and a repeated attempt adds none twice'(store) {
    await fill(store, 'b', 1)
    const { id } = await claimOne(store)
    const added = [{ id: `${id}.000001`, kind: 'other', payload: '1' }]
    assert.deepEqual(await store.batches.grow('b', added), { added: 1 })
    assert.deepEqual(await store.batches.grow('b', added), { added: 0 })
    assert.deepEqual(await membersOf(store, 'b'), [id, `${id}.000001`])
    const [other] = (await claim(store, { kinds: ['other'] })).tasks
    assert.ok(other)
    await settle(store, other, { type: 'succeeded' })
    assert.equal(await store.batches.check('b'), id)
  },

  async 'a batch that has ended takes no more members'(store) {
    await fill(store, 'b', 1)
    await work(store)
    await store.batches.check('b')
    const task = { id: 'batch:b:000000000000.000001', kind: 'k', payload: '1' }
    await assert.rejects(store.batches.grow('b', [task]), { code: 'batch_ended' })
    assert.equal(await store.get(task.id), undefined)
  },

  async 'a redrive of a dead member opens the batch again, on record, and its second end has a task of its own'(store) {
    await fill(store, 'b', 2)
    await work(store, { dead: 1 })
    await store.batches.check('b')
    assert.deepEqual(await store.redrive(['batch:b:000000000000'], BY), ['batch:b:000000000000'])
    assert.deepEqual(await statusOf(store, 'b'), { status: 'running', endings: 1, counts: [1, 0, 1, 0, 0, 0] })
    const { reopened } = (await store.batches.get('b')) ?? {}
    assert.deepEqual(reopened, { ...BY, at: await store.now(), members: 1 })
    assert.deepEqual(await audited(store), ['batch_reopened'])
    // A check that begins behind the member looks again before it ends anything.
    assert.equal(await store.batches.check('b', 'batch:b:000000000001'), 'batch:b:000000000000')
    await work(store)
    await store.batches.check('b')
    assert.deepEqual(await statusOf(store, 'b'), { status: 'completed', endings: 2, counts: [0, 0, 2, 0, 0, 0] })
    assert.equal(JSON.parse((await get(store, 'batch-end:b:2')).payload).ending, 2)
    assert.deepEqual(await membersOf(store, 'b'), ['batch:b:000000000000', 'batch:b:000000000001'])
  },

  async 'a redrive by an operation opens it too, and an undo lets it end again'(store) {
    await fill(store, 'b', 1)
    await work(store, { dead: 1 })
    await store.batches.check('b')
    const operation = await createRedrive(store)
    await move(store, operation, await take(store, operation.id), ['batch:b:000000000000'])
    assert.equal((await statusOf(store, 'b')).status, 'running')
    await store.operations.change(operation.id, 'stop', BY)
    await store.operations.undo(operation.id, { limit: 10 }, BY)
    await store.batches.check('b')
    assert.deepEqual(await statusOf(store, 'b'), { status: 'failed', endings: 2, counts: [0, 0, 0, 0, 1, 0] })
  },

  async 'cancelled members count, and the cancellation of the last one ends the batch'(store) {
    await fill(store, 'b', 3)
    const running = (await claim(store, { limit: 1 })).tasks[0]
    assert.ok(running)
    await store.cancel(await membersOf(store, 'b'))
    assert.equal((await statusOf(store, 'b')).status, 'running')
    await settle(store, running, { type: 'succeeded' })
    await store.batches.check('b')
    assert.deepEqual(await statusOf(store, 'b'), { status: 'partial_success', endings: 1, counts: [0, 0, 1, 0, 0, 2] })
    await fill(store, 'c', 1)
    await store.cancel(['batch:c:000000000000'], BY)
    assert.deepEqual(await statusOf(store, 'c'), { status: 'failed', endings: 1, counts: [0, 0, 0, 0, 0, 1] })
  },

  async 'a discard of a dead member opens nothing'(store) {
    await fill(store, 'b', 2)
    await work(store, { dead: 1 })
    await store.batches.check('b')
    await store.discard(['batch:b:000000000000'], BY)
    assert.deepEqual(await statusOf(store, 'b'), { status: 'partial_success', endings: 1, counts: [0, 0, 1, 0, 0, 1] })
  },

  async 'a member whose worker died keeps its batch open'(store, advance) {
    await fill(store, 'b', 1)
    await claim(store, { worker: 'killed' })
    assert.deepEqual((await statusOf(store, 'b')).counts, [0, 1, 0, 0, 0, 0])
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'rescuer', leaseMs: LEASE_MS })
    assert.equal(await store.batches.check('b'), 'batch:b:000000000000')
    await kill(store, await claimOne(store))
    await store.batches.check('b')
    assert.equal((await statusOf(store, 'b')).status, 'failed')
  },

  async 'batches are listed newest first, and those apart that have not ended'(store, advance) {
    for (const name of ['a', 'b', 'c']) {
      await fill(store, name, name === 'b' ? 0 : 1)
      await advance(1)
    }
    const names = async (isOpen: boolean, after?: string) => {
      const { items, next } = await store.batches.list({ isOpen }, { limit: 2, after })
      return [items.map(({ name }) => name), next] as const
    }
    const [first, next] = await names(false)
    assert.deepEqual(first, ['c', 'b'])
    assert.deepEqual((await names(false, next))[0], ['a'])
    assert.deepEqual((await names(true))[0], ['c', 'a'])
    assert.deepEqual([...(await store.batches.open())].sort(), ['a', 'c'])
  },

  async 'a batch has its own members, whatever the names of others'(store) {
    await fill(store, 'b', 1)
    await fill(store, 'b.1', 1)
    await fill(store, 'b-', 1)
    await add(store, { id: 'b:1' }, { id: 'batch' }, { id: 'batch:b' })
    assert.deepEqual(await membersOf(store, 'b'), ['batch:b:000000000000'])
    assert.deepEqual((await statusOf(store, 'b')).counts, [1, 0, 0, 0, 0, 0])
  },

  async 'members come page by page'(store) {
    await fill(store, 'b', 5)
    const found: string[] = []
    let after: string | undefined
    do {
      const page = await store.batches.members('b', undefined, { limit: 2, after })
      found.push(...page.items.map(({ id }) => id))
      after = page.next
    } while (after !== undefined)
    assert.deepEqual(found, await membersOf(store, 'b'))
    assert.equal(found.length, 5)
  },

  async 'members are kept for as long as their batch, and then forgotten'(store, advance) {
    const keep = { endedMs: 1000, deadMs: 5000 }
    await fill(store, 'b', 2)
    const first = (await claim(store, { limit: 1 })).tasks[0]
    assert.ok(first)
    await settle(store, first, { type: 'succeeded' })
    const other = await start(store, { id: 'other', kind: 'x' })
    await settle(store, other, { type: 'succeeded' })
    await advance(2000)
    assert.equal((await store.prunable(keep)).tasks, 1)
    assert.equal(await store.prune(keep, 100), 1)
    assert.equal(await store.get('other'), undefined)
    await work(store, { dead: 1 })
    await store.batches.check('b')
    await settle(store, await claimOne(store, { kinds: ['end'] }), { type: 'succeeded' })
    await advance(2000)
    // It has a dead member.
    await store.prune(keep, 100)
    assert.deepEqual((await statusOf(store, 'b')).counts, [0, 0, 1, 0, 1, 0])
    await advance(3000)
    const { tasks, deadLetters } = await store.prunable(keep)
    assert.deepEqual([tasks, deadLetters], [0, 0])
    await store.prune(keep, 100)
    assert.equal(await store.batches.get('b'), undefined)
    for (const id of ['batch:b:000000000000', 'batch:b:000000000001']) assert.equal(await store.get(id), undefined)
  },

  async 'a name that cannot be one, and a batch that is not there, are refused'(store) {
    await assert.rejects(fill(store, 'a:b', 1), { code: 'invalid_option' })
    await assert.rejects(store.batches.fill('b', { position: -1, tasks: [], isEnd: true }), { code: 'invalid_option' })
    assert.equal(await store.batches.get('b'), undefined)
    assert.equal(await store.batches.check('b'), undefined)
    await assert.rejects(store.batches.close('b', BY), { code: 'batch_not_found' })
    await assert.rejects(store.batches.tally('b'), { code: 'batch_not_found' })
    await assert.rejects(store.batches.members('b', undefined, { limit: 1 }), { code: 'batch_not_found' })
  },
}
