import { afterEach, beforeEach, expect, it } from 'vitest'
import { deadLetters } from '../../test/dead-letters.js'
import { StoreRefusedError, StoreUnavailableError } from '../store/index.js'
import { MemoryStore } from '../store/internal.js'
import { defineTask } from '../task/define-task.js'
import { Worker } from '../task/worker.js'
import { type FakeClock, fakeClock } from '../testing/index.js'

let clock: FakeClock
let store: MemoryStore
let worker: Worker
let warnings: string[]
const listener = (warning: Error) => warnings.push(warning.message)
beforeEach(async () => {
  clock = fakeClock()
  store = new MemoryStore({ clock })
  warnings = []
  process.on('warning', listener)
  await deadLetters(store, [{ id: 'a', kind: 'k' }])
  const k = defineTask('k', { handler: () => {} })
  worker = new Worker(store, { tasks: [k], clock, retention: { ended: '30d' } })
})
afterEach(async () => {
  await worker.stop()
  process.off('warning', listener)
})

/** A verb that fails until it is told not to. */
function failing<T extends object>(part: T, verb: keyof T & string, failure: Error) {
  const real = part[verb]
  Object.assign(part, { [verb]: () => Promise.reject(failure) })
  return () => Object.assign(part, { [verb]: real })
}

const refused = new StoreRefusedError('postgres', 'permission denied for table operation')

it.each([
  ['an operation', () => failing(store.operations, 'step', refused), "Cannot advance the operation 'op-"],
  ['the list of operations', () => failing(store.operations, 'list', refused), 'Cannot look for operations'],
  ['the rules', () => failing(store.groups, 'rules', refused), 'Cannot read the rules about failure groups'],
  ['regrouping', () => failing(store.groups, 'regrouped', refused), 'Cannot regroup what failed before'],
  ['pruning', () => failing(store, 'prune', refused), 'Cannot delete ended work'],
])('warns once that the store refuses %s, and goes on afterwards', async (_, refuse, text) => {
  await worker.start()
  const allow = refuse()
  const set = { filter: { kind: 'k' }, until: await store.now() }
  const { id } = await store.operations.create({ act: 'redrive', set, by: { who: 'ann' } })
  await store.groups.addRule({ pattern: 'nothing *' }, { who: 'ann' })
  await clock.advance('5m')
  expect(warnings).toContainEqual(expect.stringMatching(`^${text}.*permission denied for table operation`))
  const told = [...warnings]
  expect(new Set(told).size).toBe(told.length)
  allow()
  await clock.advance('5m')
  expect(await store.operations.get(id)).toMatchObject({ status: 'done', tally: { succeeded: 1 } })
  expect((await store.groups.rules()).regrouped).not.toBe('1')
  expect(warnings).toEqual(told)
})

it('does not warn of a store that is away for a moment', async () => {
  await worker.start()
  failing(store.operations, 'list', new StoreUnavailableError('postgres', 'connection reset', { wasSent: false }))
  await clock.advance('1m')
  expect(warnings).toEqual([])
})
