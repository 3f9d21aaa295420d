import { afterEach, beforeEach, expect, it } from 'vitest'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'
import type { StoreContract } from '../../../store/internal.js'

const TERMINAL = { isTTY: { stdin: false, stdout: true, stderr: true }, columns: 80, env: { NO_COLOR: '1' } }

/** Claims all tasks of kind `mail`: the first of them die, the others succeed. */
async function work(store: StoreContract, dead: number): Promise<void> {
  const rooms = [{ kinds: ['mail'] }]
  const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 1000, rooms, limit: 100, isIdle: false })
  const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w' }
  const verdict = { class: 'final', code: 'http_550' } as const
  await store.settle(
    tasks.map(({ id, token }, n) =>
      n < dead
        ? { id, token, outcome: { type: 'dead', reason: 'final_error' }, attempt: { ...attempt, verdict } }
        : { id, token, outcome: { type: 'succeeded' }, attempt },
    ),
  )
}

let folder: StoreFolder
beforeEach(async () => {
  folder = storeFolder()
  await folder.inStore(async store => {
    const tasks = [0, 1, 2, 3].map(n => ({ kind: 'mail', payload: `${n}` }))
    const onEnd = { kind: 'report', payload: 'null' }
    await store.batches.fill('news-1', { position: 0, tasks, isEnd: true, onEnd })
    await work(store, 1)
    await store.batches.check('news-1')
    await store.batches.fill('news-2', { position: 0, tasks, isEnd: false })
  })
})
afterEach(() => folder.remove())

it('lists batches with their figures, in 80 columns', async () => {
  const { lines } = await folder.redrive(['batch', 'ls'], TERMINAL)
  expect(lines()[0]).toMatch(/^BATCH +STATUS +TASKS +LEFT +DEAD +OPENED/)
  expect(lines()[1]).toMatch(/^news-2 +filling +4… +4 +0 /)
  expect(lines()[2]).toMatch(/^news-1 +partial_success +4 +0 +1 /)
  for (const line of lines()) expect(line.length).toBeLessThanOrEqual(80)
  const open = (await folder.redrive(['batch', 'ls', '--open', '--output', 'json'])).json()
  expect(open).toMatchObject([{ name: 'news-2', status: 'filling', total: 4, endings: 0, endedAt: null }])
})

it('shows how a batch ended, what follows, its dead letters by code, and what to do', async () => {
  const { out } = await folder.redrive(['batch', 'show', 'news-1'], TERMINAL)
  expect(out).toMatch(/^Batch news-1 {2}partial_success\n {2}tasks +3 succeeded, 1 dead\n/)
  expect(out).toMatch(/\n {2}then +batch-end:news-1:1: waiting\n {2}dead +1 mail: http_550\n/)
  expect(out).toMatch(/redrive dlq redrive --batch news-1/)
  const json = (await folder.redrive(['batch', 'show', 'news-1', '--output', 'json'])).json()
  expect(json).toMatchObject({
    deaths: [{ kind: 'mail', code: 'http_550', count: 1 }],
    followedBy: { id: 'batch-end:news-1:1', status: 'waiting' },
  })
  const unknown = await folder.redrive(['batch', 'show', 'news-9'])
  expect(unknown).toMatchObject({ code: 1 })
  expect(unknown.err).toContain("There is no batch 'news-9'")
})

it('redrives the dead letters of a batch, which opens it again and says so', async () => {
  const { err } = await folder.redrive(['dlq', 'redrive', '--batch', 'news-1', '--yes', '--why', 'box is empty'])
  expect(err).toContain("1 moved.\nThe batch 'news-1' is open again, and ends once more: redrive batch show news-1\n")
  const { out } = await folder.redrive(['batch', 'show', 'news-1'], TERMINAL)
  expect(out).toMatch(/^Batch news-1 {2}running\n/)
  expect(out).toMatch(/reopened .* by \w+, who redrove 1 of its dead\s+letters: box is empty/)
  expect(out).toMatch(/then +report, when all of its tasks have ended/)
})

it('closes a batch whose producer is gone', async () => {
  await folder.inStore(store => work(store, 0))
  expect((await folder.redrive(['batch', 'show', 'news-2'], TERMINAL)).out).toContain('redrive batch close news-2')
  const { err } = await folder.redrive(['batch', 'close', 'news-2', '--why', 'given up'])
  expect(err).toContain("The batch 'news-2' takes no more tasks: it is completed.")
})

it('lists the tasks of a batch, and explains to which batch a task belongs', async () => {
  const list = async (...flags: string[]) => {
    const { json } = await folder.redrive(['task', 'ls', '--batch', 'news-1', '--output', 'json', ...flags])
    return (json() as { id: string }[]).map(({ id }) => id)
  }
  expect(await list('--limit', '2')).toEqual(['batch:news-1:000000000000', 'batch:news-1:000000000001'])
  expect(await list('--status', 'dead')).toEqual(['batch:news-1:000000000000'])
  expect(await list('--status', 'waiting')).toEqual([])
  const { out } = await folder.redrive(['why', 'batch:news-1:000000000000'])
  expect(out).toContain("It is in the batch 'news-1', which has ended: partial_success.")
  const both = await folder.redrive(['task', 'ls', '--batch', 'news-1', '--kind', 'mail'])
  expect(both).toMatchObject({ code: 2 })
})
