import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type {
  DocumentSet,
  MessageSet,
  NewOperation,
  OperationRecord,
  OperationStep,
  StoreContract,
} from '../../src/store/internal.js'
import { assertFields, kill, type StoreBehaviours, start } from './harness.js'

const ANN = { who: 'ann', why: 'the disk is back' }
const FAILED: DocumentSet = { collection: 'chunks', source: 'sqlite:/app.db', error: '502', until: 7, count: 30 }
const route = { queue: 'chunking', type: null }
const LETTERS: MessageSet = { queue: 'chunking.failed', bus: 'amqp://localhost/', route, count: 20 }

async function taken(
  store: StoreContract,
  operation: NewOperation,
): Promise<{ operation: OperationRecord; token: string }> {
  const { id } = await store.operations.create(operation)
  const found = await store.operations.take(id, 'driver', 1000)
  assert.ok(found !== undefined, 'the lease should be free')
  return found
}

function stepOf({ progress, status }: OperationRecord, more: Partial<OperationStep>): OperationStep {
  return { leaseMs: 1000, status, progress, ...more }
}

async function lastRecords(store: StoreContract, count: number): Promise<Record<string, unknown>[]> {
  return (await store.audit.tail(count)).items.map(record => JSON.parse(record))
}

export const OUTSIDE_ACTS: StoreBehaviours = {
  async 'an act outside of the store is on record, with what its driver says it moved'(store) {
    const settings = { perSecond: 5, limit: 25 }
    const { operation, token } = await taken(store, { act: 'reset', set: FAILED, by: ANN, settings })
    assertFields(operation, { act: 'reset', set: FAILED, by: ANN, settings, status: 'running', moved: 0 })
    const progress = { ...operation.progress, refused: { already_back: 2 }, unmatched: 3 }
    const { operation: first } = (await store.operations.step(
      operation.id,
      token,
      stepOf(operation, { movedOutside: 4, progress }),
    )) ?? { operation }
    const { lastMove, ...noted } = first.progress
    assert.deepEqual(noted, progress)
    assertFields(lastMove, { count: 4 })
    assert.equal(first.moved, 4)
    const last = stepOf(first, { movedOutside: 1, status: 'done' })
    await store.operations.step(operation.id, token, last)
    assertFields(await store.operations.get(operation.id), { status: 'done', moved: 5, driver: undefined })
    const [created, ended] = await lastRecords(store, 2)
    const set = { ...FAILED, until: '1970-01-01T00:00:00.007Z' }
    assertFields(created, { event_type: 'operation_created', act: 'reset', set, who: 'ann' })
    assertFields(ended, { event_type: 'operation_ended', act: 'reset', status: 'done', moved: 5 })
  },

  async 'an act outside of the store has no members in it, and cannot be undone'(store) {
    await kill(store, await start(store, { id: 'dead' }), 'E')
    for (const [act, set] of [
      ['reset', FAILED],
      ['requeue', LETTERS],
    ] as const) {
      const { id } = await store.operations.create({ act, set, by: ANN })
      assert.deepEqual(await store.operations.members(id, { limit: 10 }), { items: [] })
      const token = (await store.operations.take(id, 'driver', 1000))?.token ?? ''
      const operation = await store.operations.get(id)
      assert.ok(operation !== undefined)
      // Ids of tasks are none of its business.
      const stepped = await store.operations.step(id, token, stepOf(operation, { move: ['dead'], status: 'done' }))
      assert.deepEqual(stepped?.moved, [])
      assert.equal((await store.get('dead'))?.status, 'dead')
      await assert.rejects(store.operations.undo(id, { limit: 10 }, ANN), /which cannot be undone/)
    }
  },

  async 'a driver outside of the store notes what it moved while somebody stopped the operation'(store) {
    const { operation, token } = await taken(store, { act: 'requeue', set: LETTERS, by: ANN })
    const { id } = operation
    await store.operations.change(id, 'stop', ANN)
    // A lease is renewed while a batch takes long.
    await store.operations.step(id, token, stepOf(operation, {}))
    const noted = await store.operations.step(id, token, stepOf(operation, { movedOutside: 6 }))
    assertFields(noted?.operation, { status: 'stopped', moved: 6, reason: 'Stopped by ann: the disk is back' })
    const [last] = await lastRecords(store, 1)
    assertFields(last, { event_type: 'operation_stopped' })
    // Nobody else meets it on the same messages, until it gives the lease back.
    await store.operations.change(id, 'continue', ANN)
    assert.equal(await store.operations.take(id, 'other', 1000), undefined)
    await store.operations.release(id, token)
    const next = await store.operations.take(id, 'other', 1000)
    assertFields(next?.operation, { status: 'running', moved: 6 })
    assert.equal(await store.operations.step(id, token, stepOf(operation, { movedOutside: 1 })), undefined)
  },

  async 'another driver goes on once the lease of one that died has run out'(store, advance) {
    const { operation, token } = await taken(store, { act: 'requeue', set: LETTERS, by: ANN })
    await store.operations.step(operation.id, token, stepOf(operation, { movedOutside: 3 }))
    await store.operations.change(operation.id, 'stop', ANN)
    await store.operations.change(operation.id, 'continue', ANN)
    await advance(1001)
    const next = await store.operations.take(operation.id, 'other', 1000)
    assertFields(next?.operation, { moved: 3, driver: { name: 'other', until: (await store.now()) + 1000 } })
  },

  async 'an act and a set that do not fit each other are refused'(store) {
    const tasks = { ids: ['a'] }
    const wrong: readonly Pick<NewOperation, 'act' | 'set'>[] = [
      { act: 'reset', set: tasks },
      { act: 'reset', set: LETTERS },
      { act: 'requeue', set: FAILED },
      { act: 'redrive', set: FAILED },
      { act: 'cancel', set: LETTERS },
      { act: 'requeue', set: { ...LETTERS, count: -1 } },
    ]
    for (const one of wrong) await assert.rejects(store.operations.create({ ...one, by: ANN }), OptionError)
    const canary = { act: 'reset', set: FAILED, by: ANN, settings: { canary: 3 } } as const
    await assert.rejects(store.operations.create(canary), /Only a redrive can have a canary/)
  },
}
