import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { TaskFilter } from '../../src/store/index.js'
import type { PayloadPart, StoreContract, TaskSet } from '../../src/store/internal.js'
import { add, claim, get, type StoreBehaviours, settle, start } from './harness.js'
import { ANN, killAll, move, take } from './operation-harness.js'

/** The most tasks that one page looks at. */
const SEARCHED = 10_000

/** Payloads that a database may see in another way than JSON, and those parts of which they contain only some. */
const ODD = {
  text: 'no JSON',
  encoded: '~redrive1 gzip eyJhIjoxfQ==',
  empty: '',
  quoted: '"{\\"a\\":1}"',
  list: '[{"a":1}]',
  spaced: ' { "a" : 1 } ',
  decimal: '{"a":1.0}',
  exponent: '{"a":1e0}',
  zero: '{"a":-0}',
  odd: '{"a":9007199254740993}',
  even: '{"a":9007199254740992}',
  huge: '{"a":1e200000,"b":1}',
  nul: '{"a":"\\u0000","b":1}',
  half: '{"a":"\\ud800","b":1}',
  twice: '{"a":1,"a":2}',
  prototype: '{"__proto__":{"a":1}}',
  deep: `{"a":1,"deep":${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
}

const FOUND: readonly (readonly [part: string, ids: readonly (keyof typeof ODD)[]])[] = [
  ['{"a":1}', ['decimal', 'deep', 'exponent', 'spaced']],
  ['{"a":0}', ['zero']],
  ['{"a":9007199254740993}', ['odd']],
  ['{"a":1e200000}', ['huge']],
  ['{"b":1}', ['half', 'huge', 'nul']],
  ['{"a":"\\u0000"}', ['nul']],
  ['{"a":"\\ud800"}', ['half']],
  ['{"a":2}', ['twice']],
  ['{"__proto__":{}}', ['prototype']],
]

async function idsOf(store: StoreContract, filter: TaskFilter): Promise<string[]> {
  const { items, next } = await store.list(filter, { limit: 1000 })
  assert.equal(next, undefined)
  return items.map(({ id }) => id).sort()
}

async function addMany(store: StoreContract, count: number, payload: string): Promise<void> {
  for (let n = 0; n < count; n += 1000)
    await add(store, ...Array.from({ length: Math.min(1000, count - n) }, () => ({ payload })))
}

/** Moves all members of an operation, and returns how many pages that took. */
async function moveAll(store: StoreContract, id: string): Promise<number> {
  const token = await take(store, id)
  let after: string | undefined
  let pages = 0
  do {
    const page = await store.operations.members(id, { limit: 100, after })
    const operation = await store.operations.get(id)
    assert.ok(operation)
    if (page.items.length > 0)
      await move(
        store,
        operation,
        token,
        page.items.map(member => member.id),
      )
    after = page.next
    pages++
  } while (after !== undefined)
  return pages
}

export const PAYLOAD_FILTERS: StoreBehaviours = {
  async 'a list has the tasks whose payload contains a part, in every status, and says how many it looked at'(store) {
    await settle(store, await start(store, { id: 'done', payload: '{"tenant":"acme","n":1}' }), { type: 'succeeded' })
    await settle(store, await start(store, { id: 'skipped', payload: '{"tenant":"acme"}' }), {
      type: 'skipped',
      reason: 'r',
    })
    await killAll(store, async () => {}, [
      { id: 'dead', payload: '{"tenant":"acme","deep":{"a":{"b":1,"c":2}}}' },
      { id: 'other', payload: '{"tenant":"other"}' },
    ])
    await start(store, { id: 'runs', payload: '{"tenant":"acme"}' })
    await add(store, { id: 'waits', payload: '{"tenant":"acme"}' }, { id: 'odd', payload: 'tenant=acme' })
    await add(store, { id: 'l', kind: 'l', payload: '{"tenant":"acme"}' })
    const where = { tenant: 'acme' }
    assert.deepEqual(await idsOf(store, { where }), ['dead', 'done', 'l', 'runs', 'skipped', 'waits'])
    assert.deepEqual(await idsOf(store, { where, kind: 'l' }), ['l'])
    assert.deepEqual(await idsOf(store, { where, status: 'dead' }), ['dead'])
    assert.deepEqual(await idsOf(store, { where, errorCode: 'E_BAD' }), ['dead'])
    assert.deepEqual(await idsOf(store, { where, group: 'E_BAD:k' }), ['dead'])
    assert.deepEqual(await idsOf(store, { where: { deep: { a: { c: 2 } } } }), ['dead'])
    assert.deepEqual(await idsOf(store, { where: '{ "n": 1.0 }' }), ['done'])
    assert.deepEqual(await idsOf(store, { where: { tenant: 'acme', n: 2 } }), [])
    const page = await store.list({ where, kind: 'k' }, { limit: 100 })
    assert.deepEqual([page.items.length, page.searched], [5, 7])
    const listed = new Map((await store.list({}, { limit: 100 })).items.map(task => [task.id, task]))
    for (const task of page.items) assert.deepEqual(task, listed.get(task.id))
    assert.equal((await store.list({}, { limit: 100 })).searched, undefined)
  },

  async 'a page ends with its last match, and the next one goes on behind it'(store, advance) {
    for (const n of [1, 2, 3, 4, 5]) {
      await add(store, { id: `yes-${n}`, payload: '{"a":1}' }, { id: `no-${n}`, payload: '{"a":2}' })
      await advance(1)
    }
    const found: string[] = []
    const searched: (number | undefined)[] = []
    let after: string | undefined
    do {
      const page = await store.list({ where: { a: 1 } }, { limit: 2, after })
      found.push(...page.items.map(({ id }) => id))
      searched.push(page.searched)
      after = page.next
    } while (after !== undefined)
    assert.deepEqual(found, ['yes-5', 'yes-4', 'yes-3', 'yes-2', 'yes-1'])
    assert.deepEqual(searched, [3, 4, 3])
  },

  async 'payloads are compared as JSON, digit by digit, and those that are not JSON never match'(store) {
    await add(store, ...Object.entries(ODD).map(([id, payload]) => ({ id, payload })))
    for (const [part, ids] of FOUND) {
      assert.deepEqual(await idsOf(store, { where: part }), ids, part)
      assert.equal((await store.count({ where: part })).waiting, ids.length, part)
    }
  },

  async 'a page looks at 10 000 tasks at most, and counts look at all'(store, advance) {
    await add(store, { id: 'oldest', payload: '{"a":1}' })
    await advance(1)
    await addMany(store, SEARCHED, '{"a":2}')
    const first = await store.list({ where: { a: 1 } }, { limit: 10 })
    assert.deepEqual([first.items, first.searched], [[], SEARCHED])
    const second = await store.list({ where: { a: 1 } }, { limit: 10, after: first.next })
    assert.deepEqual([second.items.map(({ id }) => id), second.searched, second.next], [['oldest'], 1, undefined])
    assert.deepEqual((await store.count({ where: { a: 1 } })).waiting, 1)
    assert.deepEqual((await store.count({ where: { a: 2 }, status: 'waiting' })).waiting, SEARCHED)
    // A cancellation goes on past tasks that do not match, which stay in its way.
    const set: TaskSet = { filter: { where: { a: 1 } }, until: await store.now() }
    assert.deepEqual(
      (await store.operations.survey('cancel', set)).map(({ count }) => count),
      [1],
    )
    const { id } = await store.operations.create({ act: 'cancel', set, by: ANN })
    assert.equal(await moveAll(store, id), 2)
    assert.equal((await get(store, 'oldest')).status, 'cancelled')
    assert.equal((await store.count({})).waiting, SEARCHED)
  },

  async 'tasks are counted by their payload and other fields'(store) {
    await killAll(store, async () => {}, [
      { id: 'a', payload: '{"tenant":"acme"}', code: 'E1' },
      { id: 'b', payload: '{"tenant":"acme"}', code: 'E2', kind: 'l' },
      { id: 'c', payload: '{"tenant":"acme"}', code: 'E2', kind: 'l' },
      { id: 'd', payload: '{"tenant":"other"}', code: 'E2', kind: 'l' },
    ])
    await add(store, { payload: '{"tenant":"acme"}' })
    const where = { tenant: 'acme' }
    assert.deepEqual(await store.count({ where }), {
      waiting: 1,
      running: 0,
      succeeded: 0,
      skipped: 0,
      dead: 3,
      cancelled: 0,
    })
    assert.deepEqual((await store.count({ where, kind: 'l' })).dead, 2)
    const counts = await store.countBy({ where, status: 'dead' }, ['kind', 'errorCode'])
    assert.deepEqual(
      new Set(counts),
      new Set([
        { kind: 'k', errorCode: 'E1', count: 1 },
        { kind: 'l', errorCode: 'E2', count: 2 },
      ]),
    )
    assert.deepEqual(await store.countBy({ where, status: 'dead', kind: 'l' }, ['kind']), [{ kind: 'l', count: 2 }])
    assert.deepEqual(await store.countBy({ where: { tenant: 'none' } }, ['kind']), [])
  },

  async 'operations move the members whose payload matches, and no others'(store, advance) {
    const tenants = ['acme', 'other', 'acme', 'other', 'acme']
    await killAll(
      store,
      advance,
      tenants.map((tenant, n) => ({ id: `t${n}`, payload: JSON.stringify({ tenant }) })),
    )
    const set: TaskSet = { filter: { where: { tenant: 'acme' } }, until: await store.now() }
    const [row, ...others] = await store.operations.survey('redrive', set)
    assert.deepEqual([row?.kind, row?.errorCode, row?.count, others], ['k', 'E_BAD', 3, []])
    const redrive = await store.operations.create({ act: 'redrive', set, by: ANN })
    assert.deepEqual(redrive.set, { ...set, filter: { where: '{"tenant":"acme"}' } })
    const page = await store.operations.members(redrive.id, { limit: 2 })
    assert.deepEqual(
      page.items.map(({ id }) => id),
      ['t0', 't2'],
    )
    const rest = await store.operations.members(redrive.id, { limit: 2, after: page.next })
    assert.deepEqual([rest.items.map(({ id }) => id), rest.next], [['t4'], undefined])
    await moveAll(store, redrive.id)
    assert.deepEqual(await idsOf(store, { status: 'waiting' }), ['t0', 't2', 't4'])

    const { tasks } = await claim(store, { limit: 1 })
    const ofOther: TaskSet = { filter: { where: { tenant: 'other' } }, until: await store.now() }
    const discard = await store.operations.create({ act: 'discard', set: ofOther, by: ANN })
    await moveAll(store, discard.id)
    assert.deepEqual(await idsOf(store, { status: 'cancelled' }), ['t1', 't3'])
    const cancel = await store.operations.create({ act: 'cancel', set: { ...set, until: await store.now() }, by: ANN })
    await moveAll(store, cancel.id)
    assert.deepEqual(await idsOf(store, { status: 'cancelled' }), ['t1', 't2', 't3', 't4'])
    assert.deepEqual(
      await store.cancelled('w1'),
      tasks.map(({ token }) => token),
    )
    assert.deepEqual(await store.operations.survey('cancel', set), [])
  },

  async 'a part that is no JSON object with fields is an OptionError'(store) {
    const deep = JSON.parse(`{"a":${'['.repeat(100)}${']'.repeat(100)}}`)
    const bad: unknown[] = [
      '',
      'acme',
      '[]',
      '{}',
      {},
      [],
      null,
      5,
      '{"a":1',
      { a: 1n },
      { a: Number.NaN },
      deep,
      { a: 'x'.repeat(65_536) },
    ]
    for (const where of bad as PayloadPart[]) {
      const set = { filter: { where }, until: 0 }
      for (const refused of [
        store.list({ where }, { limit: 1 }),
        store.count({ where }),
        store.countBy({ where }, ['kind']),
        store.operations.survey('redrive', set),
        store.operations.create({ act: 'cancel', set, by: ANN }),
      ])
        await assert.rejects(refused, (error: unknown) => {
          assert.ok(error instanceof OptionError, String(error))
          assert.equal(error.option, 'where')
          return true
        })
    }
  },
}
