import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { PayloadPatch, StoreContract } from '../../src/store/internal.js'
import { assertFields, claim, claimOne, get, kill, type StoreBehaviours, settle } from './harness.js'
import { ANN, createRedrive, killAll, move, take } from './operation-harness.js'

async function createPatch(store: StoreContract, patch: PayloadPatch) {
  return createRedrive(store, { settings: { patch } })
}

async function payloadOf(store: StoreContract, id: string): Promise<string> {
  return (await get(store, id)).payload
}

export const PATCHED_REDRIVES: StoreBehaviours = {
  async 'a patch changes each payload as its letter moves, and the row of the redrive has the original'(
    store,
    advance,
  ) {
    await killAll(store, advance, [
      { id: 'a', payload: '{"to":"ada","n":1}' },
      { id: 'b', payload: '{"n":2,"deep":{"x":1,"y":2}}' },
    ])
    const died = await get(store, 'a')
    const operation = await createPatch(store, { to: 'bob', deep: { x: null, z: [1] } })
    await advance(1)
    const { moved } = await move(store, operation, await take(store, operation.id), ['b', 'a'])
    assert.deepEqual(moved, ['b', 'a'])
    assert.equal(await payloadOf(store, 'a'), '{"to":"bob","n":1,"deep":{"z":[1]}}')
    assert.equal(await payloadOf(store, 'b'), '{"n":2,"deep":{"y":2,"z":[1]},"to":"bob"}')
    const rows = await store.ledger('a')
    assert.deepEqual(
      rows.map(({ outcome }) => outcome),
      ['dead', 'redriven'],
    )
    const { attempts, changedAt, errorCode } = died
    assertFields(rows.at(-1), { outcome: 'redriven', worker: ANN.who, reason: ANN.why })
    assertFields(rows.at(-1)?.before, { payload: '{"to":"ada","n":1}', attempts, changedAt, errorCode })
    const { tasks } = await claim(store)
    assert.deepEqual(
      tasks.map(({ id, payload }) => [id, JSON.parse(payload).to]),
      [
        ['a', 'bob'],
        ['b', 'bob'],
      ],
    )
  },

  async 'the patch of an operation is on record as JSON text, and the audit log has its fields without their values'(
    store,
  ) {
    const text =
      '{"at":"2030-01-01","gone":null,"__proto__":{"x":1,"y":{"z":"hunter2"}},"id":9007199254740993,"none":{}}'
    for (const patch of [JSON.parse(text), text, ` ${text}`]) {
      const { id, settings } = await createPatch(store, patch)
      const expected = typeof patch === 'string' ? text : text.replace('993', '992')
      assert.equal(settings.patch, expected)
      assert.equal((await store.operations.get(id))?.settings.patch, expected)
      const [record = ''] = (await store.audit.tail(1)).items
      assert.deepEqual(JSON.parse(record).settings, {
        patched: ['at', 'gone', '__proto__.x', '__proto__.y.z', 'id', 'none'],
      })
      assert.ok(!record.includes('hunter2'))
    }
    for (const patch of ['', '[1]', '{}', 'null', '{"a":', `${'{"a":'.repeat(101)}1${'}'.repeat(101)}`])
      await assert.rejects(createPatch(store, patch), OptionError, patch)
  },

  async 'a patch keeps the numbers of payloads as they are written'(store, advance) {
    const numbers = '"id":9007199254740993,"big":1e400,"one":1.0,"zero":-0,"deep":{"id":9007199254740993}'
    await killAll(store, advance, [{ id: 'a', payload: `{${numbers}}` }])
    const operation = await createPatch(store, '{"new":12345678901234567890,"deep":{"to":"bob"}}')
    await move(store, operation, await take(store, operation.id), ['a'])
    const patched = `{${numbers.slice(0, -1)},"to":"bob"},"new":12345678901234567890}`
    assert.equal(await payloadOf(store, 'a'), patched)
    assert.equal((await claimOne(store)).payload, patched)
  },

  async 'a payload that the patch does not change stays the text that it was'(store, advance) {
    await killAll(store, advance, [{ id: 'a', payload: '{ "to": "bob" }' }])
    const operation = await createPatch(store, { to: 'bob', cc: null })
    const { moved } = await move(store, operation, await take(store, operation.id), ['a'])
    assert.deepEqual(moved, ['a'])
    assert.equal(await payloadOf(store, 'a'), '{ "to": "bob" }')
    assert.equal((await store.ledger('a')).at(-1)?.before?.payload, undefined)
  },

  async 'payloads that cannot be patched stay where they are'(store, advance) {
    await killAll(store, advance, [
      { id: 'text', payload: 'no JSON' },
      { id: 'long', payload: JSON.stringify({ text: 'x'.repeat(2 ** 20 - 20) }) },
      { id: 'good', payload: '{}' },
    ])
    const operation = await createPatch(store, { to: 'x'.repeat(100) })
    const token = await take(store, operation.id)
    assert.deepEqual((await move(store, operation, token, ['text', 'long', 'good'])).moved, ['good'])
    assertFields(await get(store, 'text'), { status: 'dead', payload: 'no JSON' })
    assertFields(await get(store, 'long'), { status: 'dead', operation: undefined })
  },

  async 'encoded payloads become what the driver has made of them, unless they have changed since'(store, advance) {
    const encoded = (content: string) => `~redrive1 gzip ${content}`
    await killAll(
      store,
      advance,
      ['a', 'changed', 'unknown'].map(id => ({ id, payload: encoded('AAAA') })),
    )
    await killAll(store, advance, [{ id: 'plain', payload: '{"n":1}' }])
    await store.edit('changed', encoded('BBBB'), ANN)
    const operation = await createPatch(store, { to: 'bob' })
    const edits = ['a', 'changed'].map(id => ({ id, before: encoded('AAAA'), after: encoded('CCCC') }))
    const ids = ['a', 'changed', 'unknown', 'plain']
    const { moved } = await move(store, operation, await take(store, operation.id), ids, edits)
    assert.deepEqual(moved, ['a', 'plain'])
    assert.equal(await payloadOf(store, 'a'), encoded('CCCC'))
    assert.equal(await payloadOf(store, 'plain'), '{"n":1,"to":"bob"}')
    assertFields(await get(store, 'changed'), { status: 'dead', payload: encoded('BBBB') })
    assert.equal((await store.ledger('a')).at(-1)?.before?.payload, encoded('AAAA'))
    await store.operations.change(operation.id, 'stop', ANN)
    await store.operations.undo(operation.id, { limit: 9 }, ANN)
    assert.equal(await payloadOf(store, 'a'), encoded('AAAA'))
  },

  async 'fields with unusual names and characters are patched like others'(store, advance) {
    const payload =
      '{"__proto__":{"a":1},"constructor":1,"nul":"\\u0000","half":"\\ud800","rocket":"🚀","quote":"\\"\'\\\\"}'
    await killAll(store, advance, [{ id: 'a', payload }])
    const operation = await createPatch(store, JSON.parse('{"__proto__":{"b":2},"more":"\\u0000\\ud800🚀"}'))
    await move(store, operation, await take(store, operation.id), ['a'])
    assert.equal(
      await payloadOf(store, 'a'),
      '{"__proto__":{"a":1,"b":2},"constructor":1,"nul":"\\u0000","half":"\\ud800","rocket":"🚀","quote":"\\"\'\\\\","more":"\\u0000\\ud800🚀"}',
    )
    assert.equal((await store.ledger('a')).at(-1)?.before?.payload, payload)
    await store.operations.change(operation.id, 'stop', ANN)
    assert.deepEqual(await store.operations.undo(operation.id, { limit: 9 }, ANN), { undone: 1 })
    assert.equal(await payloadOf(store, 'a'), payload)
  },

  async 'an undo restores the payload of members that have not run'(store, advance) {
    await killAll(store, advance, [
      { id: 'ran', payload: '{"to":"ada"}' },
      { id: 'waits', payload: '{ "to": "ada" }' },
      { id: 'edited', payload: '{"to":"ada"}' },
    ])
    const before = await get(store, 'waits')
    const operation = await createPatch(store, { to: 'bob' })
    await advance(5)
    const ids = ['ran', 'waits', 'edited']
    await move(store, operation, await take(store, operation.id), ids)
    const ran = (await claim(store, { limit: 1 })).tasks[0] ?? assert.fail()
    await settle(store, ran, { type: 'retry', delayMs: 0, isBackoff: true })
    await store.edit('edited', '{"to":"eve"}', ANN)
    await store.operations.change(operation.id, 'stop', ANN)
    assert.deepEqual(await store.operations.undo(operation.id, { limit: 9 }, ANN), { undone: 1 })
    assert.deepEqual(await get(store, 'waits'), before)
    assertFields(await get(store, 'ran'), { status: 'waiting', payload: '{"to":"bob"}' })
    assertFields(await get(store, 'edited'), { status: 'waiting', payload: '{"to":"eve"}' })
  },

  async 'every original stays on record, however often a payload is patched'(store, advance) {
    await killAll(store, advance, [{ id: 'a', payload: '{"n":1}' }])
    for (const n of [2, 3]) {
      await advance(1)
      const operation = await createPatch(store, { n })
      await move(store, operation, await take(store, operation.id), ['a'])
      await kill(store, await claimOne(store))
    }
    const originals = (await store.ledger('a')).flatMap(({ before }) => before?.payload ?? [])
    assert.deepEqual(originals, ['{"n":1}', '{"n":2}'])
    assert.equal(await payloadOf(store, 'a'), '{"n":3}')
  },

  async 'a step that is made again, since its answer was lost, patches nothing twice'(store, advance) {
    await killAll(store, advance, [{ id: 'a', payload: '{"n":1}' }])
    const operation = await createPatch(store, { n: 2 })
    await advance(1)
    assert.deepEqual((await move(store, operation, await take(store, operation.id), ['a'])).moved, ['a'])
    // The driver dies, and another one begins with the progress of before.
    await advance(1000)
    const token = await take(store, operation.id)
    assert.deepEqual((await move(store, operation, token, ['a'])).moved, [])
    await kill(store, await claimOne(store))
    assert.deepEqual((await move(store, operation, token, ['a'])).moved, [])
    const outcomes = (await store.ledger('a')).map(({ outcome }) => outcome)
    assert.deepEqual(outcomes, ['dead', 'redriven', 'dead'])
    assert.equal(await payloadOf(store, 'a'), '{"n":2}')
  },
}
