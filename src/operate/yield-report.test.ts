import { expect, it } from 'vitest'
import { policy } from '../policy/index.js'
import type { RetryYield, Store } from '../store/index.js'
import { reportYields } from './index.js'

const NOW = 1_700_000_000_000
const NAMES = { kind: 'charge', category: '', policy: 'p', lastAt: NOW }

function storeWith(rows: readonly Partial<RetryYield>[], input = policy()): Pick<Store, 'now' | 'yields' | 'policies'> {
  const yields = rows.map(row => ({ ...NAMES, code: 'E1', attempt: 2, made: 0, succeeded: 0, ...row }))
  return {
    now: async () => NOW,
    yields: async since => yields.filter(({ lastAt }) => lastAt >= since),
    policies: { keep: async () => {}, get: async hash => (hash === 'p' ? JSON.stringify(input) : undefined) },
  }
}

it('advises to give up on a code on which no retry helped, once enough tasks say so', async () => {
  const attempts = (code: string, made: number) => [2, 3, 4].map(attempt => ({ code, attempt, made }))
  const store = storeWith([
    ...attempts('http_422', 100),
    ...attempts('http_409', 20),
    { code: 'http_502', attempt: 2, made: 100, succeeded: 80 },
    { code: 'http_502', attempt: 3, made: 20, succeeded: 3 },
    { code: 'http_502', attempt: 4, made: 17, succeeded: 2 },
  ])
  const { advice } = await reportYields(store)
  expect(advice).toEqual([
    {
      kind: 'charge',
      category: '',
      advice: 'final',
      code: 'http_422',
      fromAttempt: 2,
      toAttempt: 4,
      tasks: 100,
      succeeded: 0,
      interval: { low: 0, high: expect.closeTo(0.0362, 4) },
      saved: 300,
      patch: { giveUpOn: [422] },
    },
  ])
})

it('counts attempts of the same task as one task, since they are not independent', async () => {
  const rows = [2, 3, 4, 5, 6].map(attempt => ({ attempt, made: 20 }))
  expect((await reportYields(storeWith(rows))).advice).toEqual([])
})

it('advises fewer attempts where the last ones never helped on any code', async () => {
  const rows = ['E1', 'E2'].flatMap(code => [
    { code, attempt: 2, made: 200, succeeded: 100 },
    { code, attempt: 3, made: 100, succeeded: 0 },
    { code, attempt: 4, made: 100, succeeded: 0 },
  ])
  const { advice } = await reportYields(storeWith(rows))
  expect(advice).toMatchObject([
    { advice: 'attempts', fromAttempt: 3, toAttempt: 4, tasks: 200, succeeded: 0, saved: 400, patch: { attempts: 2 } },
  ])
})

it('takes a code out of those to retry, and keeps those that are final already', async () => {
  const rows = [{ code: 'E_BUSY', made: 100 }]
  const named = storeWith(rows, policy({ retryOn: ['E_BUSY', 502] }))
  expect((await reportYields(named)).advice[0]?.patch).toEqual({ retryOn: [502] })
  const other = storeWith(rows, policy({ giveUpOn: [404] }))
  expect((await reportYields(other)).advice[0]?.patch).toEqual({ giveUpOn: [404, 'E_BUSY'] })
  const unknown = storeWith(rows.map(row => ({ ...row, policy: 'gone' })))
  expect((await reportYields(unknown)).advice[0]).not.toHaveProperty('patch')
})

it('adds up policies that followed each other, and patches the latest', async () => {
  const store = storeWith([
    { policy: 'old', lastAt: NOW - 5, made: 60, succeeded: 1 },
    { made: 40, succeeded: 1 },
  ])
  const { yields, since } = await reportYields(store, { periodMs: 1000 })
  expect(yields).toMatchObject([{ made: 100, succeeded: 2 }])
  expect(since).toBe(new Date(NOW - 1000).toISOString())
})

it('leaves out other kinds, and older failures', async () => {
  const store = storeWith([{ kind: 'mail', made: 1 }, { made: 2 }, { made: 4, code: 'old', lastAt: NOW - 2000 }])
  expect((await reportYields(store, { kind: 'charge', periodMs: 1000 })).yields).toMatchObject([{ made: 2 }])
})
