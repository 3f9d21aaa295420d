import { describe, expect, it } from 'vitest'
import { deadLetters } from '../../test/dead-letters.js'
import { MemoryStore } from '../store/internal.js'

import { declareTask, type StandardSchema } from '../task/index.js'
import { discardDeadLetters, planOperation, redriveDeadLetters } from './index.js'

/** Takes objects that have a recipient. */
const schema: StandardSchema<{ to: string }, { to: string }> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: value =>
      typeof value === 'object' && value !== null && 'to' in value && typeof value.to === 'string'
        ? { value: { to: value.to } }
        : { issues: [{ message: 'Expected text', path: ['to'] }] },
  },
}
const mail = declareTask('mail', { payload: schema })
const other = declareTask<number>('other')
const tasks = [mail, other]
const by = { who: 'ada' }

async function scene(ordered = false) {
  const store = new MemoryStore()
  if (ordered) await store.limit({ kind: 'mail' }, { isOrdered: true })
  await deadLetters(store, [
    { id: 'good', kind: 'mail', payload: '{"to":"ada"}' },
    { id: 'old', kind: 'mail', payload: '{"address":"ada"}' },
    { id: 'free', kind: 'other', payload: '1' },
  ])
  return store
}

it('a plan counts payloads that no longer fit the schema of their task, and shows one', async () => {
  const store = await scene()
  const plan = await planOperation(store, 'redrive', { all: true }, { tasks })
  expect(plan.refused).toEqual([{ reason: 'payload_invalid', count: 1 }])
  const example = { id: 'old', problem: 'to: Expected text' }
  expect(plan.payloads).toEqual({ checked: 2, invalid: 1, example, unchanged: null, change: null })
  const named = await planOperation(store, 'redrive', { ids: ['good'] }, { tasks })
  expect([named.refused, named.payloads?.checked]).toEqual([[], 1])
  expect((await planOperation(store, 'redrive', { all: true })).payloads).toBeNull()
})

it('a schema that throws, and a payload that is no JSON, do not stop it', async () => {
  const store = new MemoryStore()
  await deadLetters(store, [
    { id: 'a', kind: 'mail', payload: '{"to":"ada"}' },
    { id: 'b', kind: 'mail', payload: 'no JSON' },
    { id: 'c', kind: 'strict', payload: '1' },
  ])
  const validate = () => {
    throw new Error('the schema is broken')
  }
  const strict = declareTask('strict', { payload: { '~standard': { version: 1, vendor: 'test', validate } } })
  const plan = await planOperation(store, 'redrive', { all: true }, { tasks: [mail, strict] })
  expect(plan.payloads).toMatchObject({ checked: 3, invalid: 2 })
  const problems = await Promise.all(
    ['b', 'c'].map(async id => {
      const one = await planOperation(store, 'redrive', { ids: [id] }, { tasks: [mail, strict] })
      return one.payloads?.example?.problem
    }),
  )
  expect(problems).toEqual(['it is not JSON', 'Error: the schema is broken'])
  const { moved, operation } = await redriveDeadLetters(store, { all: true }, { ...by, tasks: [mail, strict] })
  expect([moved, operation?.progress.refused]).toEqual([1, { payload_invalid: 2 }])
})

it.each([false, true])('a redrive leaves them alone, and says so (ordered lane: %s)', async ordered => {
  const store = await scene(ordered)
  const { moved, operation } = await redriveDeadLetters(store, { all: true }, { ...by, tasks })
  expect([moved, operation?.progress.refused]).toEqual([2, { payload_invalid: 1 }])
  expect((await store.get('old'))?.status).toBe('dead')
  const named = await redriveDeadLetters(store, { ids: ['old'] }, { ...by, tasks })
  expect([named.moved, named.operation?.progress.refused]).toEqual([0, { payload_invalid: 1 }])
})

it('a canary takes none of them', async () => {
  const store = await scene()
  await store.heartbeat({ worker: 'w', leaseMs: 60_000, kinds: ['mail', 'other'] })
  const stop = AbortSignal.timeout(500)
  const { operation } = await redriveDeadLetters(store, { all: true }, { ...by, tasks, canary: 3, signal: stop })
  expect([...(operation?.progress.canary ?? [])].sort()).toEqual(['free', 'good'])
})

describe('a patch', () => {
  const patch = { to: 'bob', address: null }

  it('is planned: who would fit, whom it does not change, and an example', async () => {
    const store = await scene()
    await deadLetters(store, [
      { id: 'same', kind: 'mail', payload: '{"to":"bob"}' },
      { id: 'item', kind: 'pipeline:p', key: 'r', payload: '1' },
    ])
    const plan = await planOperation(store, 'redrive', { filter: { kind: 'mail' } }, { tasks, patch })
    expect(plan.refused).toEqual([])
    expect(plan.payloads).toMatchObject({ checked: 3, invalid: 0, unchanged: 1 })
    expect(plan.payloads?.change?.after).toEqual({ to: 'bob' })
    const worse = await planOperation(store, 'redrive', { all: true }, { tasks, patch: { to: 1 } })
    expect(worse.refused).toEqual([
      { reason: 'item_of_run', count: 1 },
      { reason: 'payload_invalid', count: 3 },
    ])
    // Without schemas, any change is good.
    const free = await planOperation(store, 'redrive', { all: true }, { patch: { to: 1 } })
    expect(free.payloads).toMatchObject({ checked: 4, invalid: 0, unchanged: 0 })
  })

  it.each([false, true])(
    'makes payloads fit, and is refused where they still do not (ordered lane: %s)',
    async ordered => {
      const store = await scene(ordered)
      await deadLetters(store, [{ id: 'item', kind: 'pipeline:p', key: 'r', payload: '1' }])
      const bad = await redriveDeadLetters(store, { all: true }, { ...by, tasks, patch: { to: 1 } })
      expect([bad.moved, bad.operation?.progress.refused]).toEqual([1, { payload_invalid: 2, item_of_run: 1 }])
      expect(await store.payloads(['good', 'old', 'free'])).toEqual(['{"to":"ada"}', '{"address":"ada"}', '{"to":1}'])
      const good = await redriveDeadLetters(store, { ids: ['old'] }, { ...by, tasks, patch })
      expect([good.moved, good.operation?.settings.patch]).toEqual([1, JSON.stringify(patch)])
      expect(await store.get('old')).toMatchObject({ status: 'waiting', payload: '{"to":"bob"}' })
    },
  )

  it('belongs to a redrive alone', async () => {
    const store = await scene()
    await expect(discardDeadLetters(store, { all: true }, { ...by, why: 'x', patch })).rejects.toThrow(
      'Only a redrive can patch payloads, and not a discard.',
    )
  })
})
