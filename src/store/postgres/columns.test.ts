import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import type { ClaimedTask, Settlement } from '../contract/claim.js'
import { openPostgres, type PostgresStore } from './internal.js'

let url: string
beforeAll(async () => {
  url = await freshDatabase()
})

it('half a surrogate pair becomes U+FFFD however it is sent, and what only looks like one stays', async () => {
  const { store, one, other } = await claimed()
  const settled = await store.settle([
    success(one, { worker: 'w\ud800', result: '"\ud83d"' }),
    success(other, { worker: 'w\\ud800', result: '"\\ud800 \udc00"', reason: 'enough' }),
  ])
  expect(settled).toEqual([{ result: 'settled' }, { result: 'settled' }])
  expect((await store.get(one.id))?.result).toBe('"\ufffd"')
  expect(await store.ledger(one.id)).toMatchObject([{ worker: 'w\ufffd' }])
  expect((await store.get(other.id))?.result).toBe('"\\ud800 \ufffd"')
  expect(await store.ledger(other.id)).toMatchObject([{ worker: 'w\\ud800' }])
})

it.each(['worker', 'result'])('NUL in a %s is refused, and fails no other settlement of its batch', async column => {
  const { store, one, other } = await claimed()
  const [refused, settled] = await Promise.allSettled([
    store.settle([success(one, { [column]: 'a\0' })]),
    store.settle([success(other, {})]),
  ])
  expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'store_refused' } })
  expect(settled).toMatchObject({ status: 'fulfilled', value: [{ result: 'settled' }] })
  expect((await store.get(one.id))?.status).toBe('running')
})

const NOTHING = { id: '', token: '' }

/** A store with two tasks that run. */
async function claimed(): Promise<{ store: PostgresStore; one: Task; other: Task }> {
  const store = await openPostgres(url, { listen: false })
  onTestFinished(() => store.close())
  await store.enqueue([
    { kind: 'k', payload: '{}' },
    { kind: 'k', payload: '{}' },
  ])
  const rooms = [{ kinds: ['k'] }]
  const { tasks } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 2, isIdle: false })
  const [one = NOTHING, other = NOTHING] = tasks
  return { store, one, other }
}

type Task = Pick<ClaimedTask, 'id' | 'token'>

interface Texts {
  readonly worker?: string
  readonly result?: string
  /** With one, it is no plain success. */
  readonly reason?: string
}

function success({ id, token }: Task, { worker = 'w', result, reason }: Texts): Settlement {
  const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker }
  return { id, token, outcome: { type: 'succeeded', result, reason }, attempt }
}
