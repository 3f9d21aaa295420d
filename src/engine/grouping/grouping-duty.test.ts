import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { deadLetters } from '../../../test/dead-letters.js'
import { MemoryStore } from '../../store/internal.js'

import { defineTask } from '../../task/define-task.js'
import { TaskQueue } from '../../task/task-queue.js'
import { Worker } from '../../task/worker.js'
import { GroupingDuty } from './grouping-duty.js'

const ann = { who: 'ann' }
const LEASE = { leaseMs: 60_000 }

let store: MemoryStore
let duty: GroupingDuty
beforeEach(async () => {
  store = new MemoryStore()
  duty = new GroupingDuty(store, 'w1')
  const over = (id: string, tenant: string) => ({
    id,
    kind: 'charge',
    code: 'over',
    message: `Error: tenant ${tenant} is over its limit`,
  })
  await deadLetters(store, [over('a', 'Blue Sky'), over('b', 'Acme'), over('c', 'Acme')])
})
afterEach(() => duty.stop())

/** The dead letters of each pattern. */
async function patterns(): Promise<Record<string, number>> {
  const { items } = await store.groups.list({}, { limit: 100 })
  return Object.fromEntries(items.map(({ pattern, dead }) => [pattern, dead]))
}

/** A heartbeat of this worker, and what follows from it. */
async function beat(): Promise<void> {
  const rules = vi.spyOn(store.groups, 'rules')
  await store.heartbeat({ worker: 'w1', ...LEASE, grouping: duty.rules.grouping })
  duty.beat()
  await vi.waitFor(() => expect(rules).toHaveBeenCalled())
  rules.mockRestore()
  // Everything in memory is done within a few turns.
  for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve))
}

const APART = { 'tenant Blue Sky is over its limit': 1, 'tenant Acme is over its limit': 2 }
const ONE = { 'tenant * is over its limit': 3 }

describe('when a rule is added', () => {
  it('what failed before is moved, and the life of the group goes with it', async () => {
    const [acme] = (await store.groups.list({}, { limit: 100 })).items.filter(({ dead }) => dead === 2)
    await store.groups.mark(acme?.id ?? '', { state: 'acknowledged' }, ann)
    await beat()
    expect(await patterns()).toEqual(APART)
    expect((await store.groups.rules()).regrouped).toBeUndefined()

    const { id } = await store.groups.addRule({ pattern: 'tenant * is over its limit' }, ann)
    await beat()
    await beat()
    expect(await patterns()).toEqual(ONE)
    expect((await store.groups.rules()).regrouped).toBe(duty.rules.grouping)
    const [group] = (await store.groups.list({}, { limit: 1 })).items
    expect(group).toMatchObject({ seen: 3, life: { state: 'acknowledged', who: 'ann' } })

    await store.groups.removeRule(id, ann)
    await beat()
    await beat()
    expect(await patterns()).toEqual(APART)
    expect((await store.groups.rules()).regrouped).toBe('1')
  })

  it('nothing is moved while a live worker reports another grouping, or none', async () => {
    await store.groups.addRule({ pattern: 'tenant * is over its limit' }, ann)
    await duty.load()
    for (const grouping of ['1', undefined]) {
      await store.heartbeat({ worker: 'w2', ...LEASE, grouping })
      await beat()
      expect(await patterns()).toEqual(APART)
    }
    await store.heartbeat({ worker: 'w2', ...LEASE, grouping: duty.rules.grouping })
    await beat()
    expect(await patterns()).toEqual(ONE)
  })

  it('only the first worker by name goes through the groups', async () => {
    await store.groups.addRule({ pattern: 'tenant * is over its limit' }, ann)
    await duty.load()
    await store.heartbeat({ worker: 'w0', ...LEASE, grouping: duty.rules.grouping })
    await beat()
    expect(await patterns()).toEqual(APART)
  })

  it('a group that an open operation is about is left until it is over', async () => {
    const [acme] = (await store.groups.list({}, { limit: 100 })).items.filter(({ dead }) => dead === 2)
    const set = { filter: { group: acme?.id ?? '' }, until: await store.now() }
    const operation = await store.operations.create({ act: 'redrive', set, by: ann })
    await store.groups.addRule({ pattern: 'tenant * is over its limit' }, ann)
    await duty.load()
    await beat()
    expect(await patterns()).toEqual({ 'tenant Acme is over its limit': 2, 'tenant * is over its limit': 1 })
    expect((await store.groups.rules()).regrouped).toBeUndefined()
    await store.operations.change(operation.id, 'stop', ann)
    await beat()
    expect(await patterns()).toEqual(ONE)
  })
})

it('a worker groups what fails by the rules, and reports them', async () => {
  await store.groups.addRule({ kind: 'ship', pattern: 'no route to *' }, ann)
  const ship = defineTask('ship', {
    policy: { attempts: 1 },
    handler: (to: string) => {
      throw new Error(`no route to ${to}`)
    },
  })
  const queue = new TaskQueue(store)
  const worker = new Worker(store, { tasks: [ship], name: 'w9' })
  await worker.start()
  const [reported] = await store.workers()
  expect(reported?.grouping).toMatch(/^1\.[0-9a-f]{12}$/)
  for (const to of ['Blue Sky', 'Acme']) await queue.enqueue(ship, to)
  await vi.waitFor(async () => expect((await store.count({ kind: 'ship', status: 'dead' })).dead).toBe(2))
  await worker.stop()
  const { items } = await store.groups.list({ kind: 'ship' }, { limit: 10 })
  expect(items).toMatchObject([{ pattern: 'no route to *', dead: 2 }])
})
