import { afterEach, beforeEach, expect, it } from 'vitest'
import { type StoreFolder, storeFolder } from '../../../test/store-folder.js'
import { untilEmpty } from '../../operate/index.js'
import type { Outcome } from '../../store/index.js'
import { defineTask, TaskQueue, Worker } from '../../task/index.js'

let folder: StoreFolder
beforeEach(() => {
  folder = storeFolder()
})
afterEach(() => folder.remove())

class HttpError extends Error {
  constructor(readonly status: number) {
    super(`status ${status}`)
  }
}

it('reports what retries were worth, and the change of the policy', async () => {
  await folder.inStore(async store => {
    const charge = defineTask('charge', {
      policy: { attempts: 4, backoff: 'none', retryOn: 'all', giveUpOn: [404] },
      handler: ({ status, until }: { status: number; until: number }, { attempt }) => {
        if (attempt < until) throw new HttpError(status)
      },
    })
    const queue = new TaskQueue(store)
    const payloads = [...many(80, { status: 422, until: 9 }), ...many(10, { status: 502, until: 3 })]
    await Promise.all(payloads.map(payload => queue.enqueue(charge, payload)))
    const worker = new Worker(store, { tasks: [charge] })
    await worker.start()
    await untilEmpty(store, { kinds: ['charge'] })
    await worker.stop()
  })
  const { code, err, lines } = await folder.redrive(['policy', 'report', '--kind', 'charge'])
  expect(code).toBe(0)
  expect(lines()).toEqual([
    'KIND    AFTER     ATTEMPT  MADE  SUCCEEDED  SHARE',
    'charge  http_422  2        80    0          0 % (0 % to 4.5 %)',
    'charge  http_422  3        80    0          0 % (0 % to 4.5 %)',
    'charge  http_422  4        80    0          0 % (0 % to 4.5 %)',
    'charge  http_502  2        10    0          0 % (0 % to 30.8 %)',
    'charge  http_502  3        10    10         100 % (69.2 % to 100 %)',
  ])
  expect(err).toBe(`
charge: make http_422 final.
Attempts 2 to 4 helped none of 80 tasks in 30d, at most 4.5 % in the long run.
Without them there would have been 240 attempts fewer.
In its policy: {"giveUpOn":[404,422]}
`)
  const { advice } = (await folder.redrive(['policy', 'report', '--output', 'json'])).json() as { advice: unknown[] }
  expect(advice).toMatchObject([{ advice: 'final', code: 'http_422', tasks: 80, saved: 240 }])
})

it('does not praise retries that never helped, if they are too few to tell', async () => {
  const fail = async (id: string, code: string, ends: readonly Outcome[]) =>
    folder.inStore(async store => {
      await store.enqueue([{ id, kind: 'k', payload: '1' }])
      const verdict = { class: 'retryable', code } as const
      for (const [n, outcome] of ends.entries()) {
        const rooms = [{ kinds: ['k'] }]
        const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 1, isIdle: true })
        const failed = outcome.type === 'succeeded' ? {} : { verdict, error: 'Error', random: 0 }
        const attempt = { attempt: n + 1, startedAt: now, endedAt: now, worker: 'w', ...failed }
        await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
      }
    })
  const again = { type: 'retry', delayMs: 0, isBackoff: true } as const
  await fail('a', 'http_502', [again, { type: 'succeeded' }])
  expect((await folder.redrive(['policy', 'report'])).err).toBe(
    'No policy to change: retries have helped after each of these errors.\n',
  )
  await fail('b', 'http_409', [again, { type: 'dead', reason: 'attempts_exhausted' }])
  expect((await folder.redrive(['policy', 'report'])).err).toBe(
    'No retry has helped yet after http_409, but too few were made to advise a change.\n',
  )
})

it('says so if there is nothing to report', async () => {
  await folder.inStore(async () => {})
  expect(await folder.redrive(['policy', 'report', '--since', '7d'])).toMatchObject({
    code: 0,
    out: '',
    err: 'No retries in the last 7d.\n',
  })
})

function many<T>(count: number, value: T): T[] {
  return Array.from({ length: count }, () => value)
}
