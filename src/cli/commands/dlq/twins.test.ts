import { afterEach, beforeEach, expect, it } from 'vitest'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'
import { declareTask, TaskQueue } from '../../../task/index.js'

/** Each shop has at most one unfinished task of this kind. */
const sync = declareTask<string>('sync', { unique: { key: shop => shop, while: 'unfinished', conflict: 'keep' } })

let folder: StoreFolder
beforeEach(async () => {
  folder = storeFolder()
  await folder.inStore(async store => {
    const queue = new TaskQueue(store)
    await queue.enqueue(sync, 'acme', { id: 'letter' })
    await queue.enqueue(sync, 'zeta', { id: 'free' })
    const rooms = [{ kinds: ['sync'] }]
    const { tasks } = await store.claim({ worker: 'w', leaseMs: 1, rooms, limit: 2, isIdle: false })
    const outcome = { type: 'dead', reason: 'final_error' } as const
    await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome })))
    await queue.enqueue(sync, 'acme', { id: 'twin' })
  })
})
afterEach(() => folder.remove())

const statuses = () =>
  folder.inStore(async store => {
    const found = await Promise.all(['letter', 'free', 'twin'].map(id => store.get(id)))
    return found.map(task => (task?.isQueued ? 'queued' : task?.status))
  })

it('dlq redrive leaves a letter whose twin lives, and says so before and after', async () => {
  const dry = await folder.redrive(['dlq', 'redrive', '--kind', 'sync', '--dry-run'])
  expect(dry.err).toContain('1 left alone: another task has their unique key by now. See --twin')
  expect(dry.err).toContain('1 would be moved. This was a dry run: 0 moved.')
  expect((await folder.redrive(['dlq', 'redrive', '--kind', 'sync', '--yes'])).code).toBe(3)
  expect(await statuses()).toEqual(['dead', 'waiting', 'waiting'])
  const named = await folder.redrive(['dlq', 'redrive', 'letter', '--yes'])
  expect(named.err).toContain("'letter' stays dead: 'twin' has its unique key by now. To redrive it, pass --twin after")
})

it('dlq redrive --twin replace cancels the twin', async () => {
  const { code } = await folder.redrive(['dlq', 'redrive', 'letter', '--twin', 'replace', '--yes'])
  expect(code).toBe(0)
  expect(await statuses()).toEqual(['waiting', 'dead', 'cancelled'])
})

it('dlq redrive --twin after lets the letter wait, and its plan refuses none', async () => {
  const dry = await folder.redrive(['dlq', 'redrive', '--kind', 'sync', '--twin', 'after', '--dry-run'])
  expect(dry.err).not.toContain('unique key')
  expect(dry.err).toContain('2 would be moved. This was a dry run: 0 moved.')
  await folder.redrive(['dlq', 'redrive', '--kind', 'sync', '--twin', 'after', '--yes'])
  expect(await statuses()).toEqual(['queued', 'waiting', 'waiting'])
})

it('dlq redrive --twin takes no other rule', async () => {
  const { code, err } = await folder.redrive(['dlq', 'redrive', 'letter', '--twin', 'keep', '--yes'])
  expect(code).toBe(2)
  expect(err).toContain('Allowed choices are skip, replace, after.')
})

it('task ls --unique lists the tasks of a key, newest change first, whether or not they have it', async () => {
  const { json } = await folder.redrive(['task', 'ls', '--unique', 'acme', '--output', 'json'])
  expect(json()).toMatchObject([
    { id: 'twin', status: 'waiting', uniqueKey: 'acme' },
    { id: 'letter', status: 'dead', uniqueKey: 'acme' },
  ])
  const none = await folder.redrive(['task', 'ls', '--unique', 'nobody', '--output', 'json'])
  expect(none.json()).toEqual([])
})

it('why names the twin of a letter, and of a task that waits for it', async () => {
  const dead = await folder.redrive(['why', 'letter'])
  expect(dead.out).toMatch(/'twin' has its unique key 'acme' by now/)
  expect(dead.out).toMatch(/redrive dlq redrive letter --twin after|redrive dlq redrive --twin after letter/)
  await folder.redrive(['dlq', 'redrive', 'letter', '--twin', 'after', '--yes'])
  const { out } = await folder.redrive(['why', 'letter'])
  expect(out).toMatch(/the task 'twin'/)
  expect(out).toContain('redrive why twin')
})

it('queue.redrive has the same rules', async () => {
  await folder.inStore(async store => {
    const queue = new TaskQueue(store)
    const by = { who: 'ada', why: 'fixed' }
    expect(await queue.redrive('letter', by)).toEqual([])
    expect(await queue.redrive('letter', by, { twin: 'skip' })).toEqual([])
    expect(await queue.redrive('letter', by, { twin: 'after' })).toEqual(['letter'])
    await queue.cancel('letter', by)
    await expect(queue.redrive('free', by, { twin: 'keep' as never })).rejects.toThrow("'twin' must be one of")
    expect(await queue.redrive(['free'], by, { twin: 'replace' })).toEqual(['free'])
  })
  expect(await statuses()).toEqual(['cancelled', 'waiting', 'waiting'])
})
