import { expect, it } from 'vitest'
import { deadLetters } from '../../test/dead-letters.js'
import { MemoryStore } from '../store/index.js'
import { declareTask, type StandardSchema } from '../task/index.js'
import { planOperation, redriveDeadLetters } from './index.js'

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
  expect(plan.payloads).toEqual({ checked: 2, invalid: 1, example: { id: 'old', problem: 'to: Expected text' } })
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
