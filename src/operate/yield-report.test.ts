import { describe, expect, it } from 'vitest'
import { policy } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'
import { reportYields } from './index.js'
import type { RetryYield } from './retry-yields.js'

const NOW = 1_700_000_000_000
const DAY = 86_400_000
const NAMES = { kind: 'charge', category: '', policy: 'p', code: 'E1', attempt: 2 }
const NO_COUNTS = { made: 0, succeeded: 0, recovered: 0 }

/** A store with as many retried tasks as these counts have. */
function storeWith(rows: readonly Partial<RetryYield>[], input = policy()) {
  const tasks = rows.flatMap((row, index) => {
    const { kind, made, succeeded, recovered, attempt, ...names } = { ...NAMES, ...NO_COUNTS, ...row }
    const { lastAt = NOW, firstAt = lastAt } = row
    return Array.from({ length: made }, (_, n) => {
      const end = { ...names, endedAt: n === 0 ? firstAt : lastAt }
      const last = n < succeeded ? 'succeeded' : 'dead'
      const ends = [
        { ...end, attempt: attempt - 1, outcome: 'retry' as const },
        { ...end, attempt, outcome: last } as const,
      ]
      return { id: `${index}:${n}`, kind, hasSucceeded: n < succeeded + recovered, ends }
    })
  })
  return Object.assign(new MemoryStore(), {
    now: async () => NOW,
    retried: async () => ({ items: tasks }),
    policies: { keep: async () => {}, get: async (hash: string) => (hash === 'p' ? JSON.stringify(input) : undefined) },
  })
}

/** The same counts on each of the last days. */
function daily(days: number, rows: readonly Partial<RetryYield>[]): Partial<RetryYield>[] {
  return Array.from({ length: days }, (_, day) => rows.map(row => ({ ...row, lastAt: NOW - day * DAY }))).flat()
}

it('advises to give up on a code on which no retry helped, once enough tasks say so', async () => {
  const attempts = (code: string, made: number) => [2, 3, 4].map(attempt => ({ code, attempt, made }))
  const store = storeWith(
    daily(4, [
      ...attempts('http_422', 25),
      ...attempts('http_409', 5),
      { code: 'http_502', attempt: 2, made: 25, succeeded: 20 },
      { code: 'http_502', attempt: 3, made: 5, succeeded: 1 },
      { code: 'http_502', attempt: 4, made: 4, succeeded: 1 },
    ]),
  )
  const { advice, doubtful } = await reportYields(store)
  expect(advice).toEqual([
    {
      kind: 'charge',
      category: '',
      advice: 'final',
      code: 'http_422',
      fromAttempt: 2,
      toAttempt: 4,
      days: 4,
      tasks: 100,
      succeeded: 0,
      interval: { low: 0, high: expect.closeTo(0.0362, 4) },
      saved: 300,
      patch: { giveUpOn: [422] },
    },
  ])
  expect(doubtful).toEqual([])
})

it('counts attempts of the same task as one task, since they are not independent', async () => {
  const rows = [2, 3, 4, 5, 6].map(attempt => ({ attempt, made: 5 }))
  expect(await reportYields(storeWith(daily(4, rows)))).toMatchObject({ advice: [], doubtful: [] })
})

it('advises fewer attempts where the last ones never helped on any code', async () => {
  const rows = ['E1', 'E2'].flatMap(code => [
    { code, attempt: 2, made: 50, succeeded: 25 },
    { code, attempt: 3, made: 25, succeeded: 0 },
    { code, attempt: 4, made: 25, succeeded: 0 },
  ])
  const { advice } = await reportYields(storeWith(daily(4, rows)))
  expect(advice).toMatchObject([
    { advice: 'attempts', fromAttempt: 3, toAttempt: 4, tasks: 200, succeeded: 0, saved: 400, patch: { attempts: 2 } },
  ])
})

it('counts a success after a redrive, since it shows that the failure passes', async () => {
  const rows = [{ made: 100 }, { attempt: 3, made: 100, recovered: 10 }]
  const { yields, ...report } = await reportYields(storeWith(daily(4, rows)))
  expect(report).toMatchObject({ advice: [], doubtful: [] })
  expect(yields).toMatchObject([{ recovered: 0 }, { made: 400, succeeded: 0, recovered: 40 }])
  const few = await reportYields(storeWith(daily(4, [{ made: 100 }, { attempt: 3, made: 100, recovered: 1 }])))
  expect(few.advice).toMatchObject([{ tasks: 400, succeeded: 4 }])
})

describe('failures that look like an outage', () => {
  it('are no reason to give up on a code before the third day', async () => {
    const report = (days: number) => reportYields(storeWith(daily(days, [{ made: 450 }])))
    const [one, two, three] = [await report(1), await report(2), await report(3)]
    expect(one).toMatchObject({ advice: [], doubtful: [{ advice: 'final', code: 'E1', days: 1, tasks: 450 }] })
    expect(one.doubtful[0]).not.toHaveProperty('patch')
    expect(one.yields).toMatchObject([{ made: 450, succeeded: 0 }])
    expect(two).toMatchObject({ advice: [], doubtful: [{ days: 2, tasks: 900 }] })
    expect(three).toMatchObject({ advice: [{ days: 3, tasks: 1350 }], doubtful: [] })
  })

  it('begin and end at midnight in UTC', async () => {
    const midnight = Math.floor(NOW / DAY) * DAY
    const at = (...times: number[]) => reportYields(storeWith(times.map(lastAt => ({ lastAt, made: 450 }))))
    expect((await at(midnight - 1, midnight, NOW)).doubtful).toMatchObject([{ days: 2 }])
    expect((await at(midnight - DAY - 1, midnight - 1, midnight)).advice).toMatchObject([{ days: 3 }])
  })

  it('are not spread over days on which retries helped', async () => {
    const rows = [{ made: 2000 }, ...daily(9, [{ made: 5, succeeded: 5 }]).slice(1)]
    expect(await reportYields(storeWith(rows))).toMatchObject({ advice: [], doubtful: [{ code: 'E1', days: 1 }] })
  })

  it('are no reason to make fewer attempts, whatever other codes did on other days', async () => {
    const rows = [
      { code: 'down', attempt: 2, made: 300, succeeded: 100 },
      { code: 'down', attempt: 3, made: 200 },
      ...daily(4, [
        { code: 'flaky', attempt: 2, made: 5, succeeded: 4 },
        { code: 'flaky', attempt: 3, made: 1 },
      ]),
    ]
    const { advice, doubtful } = await reportYields(storeWith(rows))
    expect(advice).toEqual([])
    expect(doubtful).toMatchObject([{ advice: 'attempts', fromAttempt: 3, days: 1, tasks: 200 }])
    expect(doubtful[0]).not.toHaveProperty('code')
    expect(doubtful[0]).not.toHaveProperty('patch')
  })

  it('do not hide advice on other codes', async () => {
    const lasting = daily(3, [
      { code: 'E2', attempt: 2, made: 90, succeeded: 50 },
      { code: 'E2', attempt: 3, made: 40 },
    ])
    const { advice, doubtful } = await reportYields(storeWith([{ made: 450 }, { made: 450, attempt: 3 }, ...lasting]))
    expect(advice).toMatchObject([{ advice: 'attempts', fromAttempt: 3, tasks: 120, patch: { attempts: 2 } }])
    expect(doubtful).toMatchObject([{ advice: 'final', code: 'E1', days: 1 }])
  })
})

it('takes a code out of those to retry, and keeps those that are final already', async () => {
  const rows = daily(3, [{ code: 'E_BUSY', made: 100 }])
  const named = storeWith(rows, policy({ retryOn: ['E_BUSY', 502] }))
  expect((await reportYields(named)).advice[0]?.patch).toEqual({ retryOn: [502] })
  const other = storeWith(rows, policy({ giveUpOn: [404] }))
  expect((await reportYields(other)).advice[0]?.patch).toEqual({ giveUpOn: [404, 'E_BUSY'] })
  const unknown = storeWith(rows.map(row => ({ ...row, policy: 'gone' })))
  expect((await reportYields(unknown)).advice[0]).not.toHaveProperty('patch')
})

it('adds up policies that followed each other, and patches the latest', async () => {
  const store = storeWith([
    ...daily(4, [{ made: 25 }]),
    ...daily(4, [{ policy: 'old', made: 15 }]).map(row => ({ ...row, lastAt: (row.lastAt ?? NOW) - 5 })),
  ])
  const { yields, advice } = await reportYields(store)
  expect(yields).toMatchObject([{ made: 160, succeeded: 0 }])
  expect(advice).toMatchObject([{ tasks: 160, patch: { giveUpOn: ['E1'] } }])
})

it('reports since when failures are on record, which may be less than the period', async () => {
  const young = storeWith([
    { made: 1, firstAt: NOW - 660_000 },
    { made: 1, code: 'E2' },
  ])
  expect((await reportYields(young)).since).toBe(new Date(NOW - 660_000).toISOString())
  expect((await reportYields(storeWith([]), { periodMs: 1000 })).since).toBe(new Date(NOW - 1000).toISOString())
})

it('leaves out other kinds, and older failures', async () => {
  const store = storeWith([{ kind: 'mail', made: 1 }, { made: 2 }, { made: 4, code: 'old', lastAt: NOW - 2000 }])
  expect((await reportYields(store, { kind: 'charge', periodMs: 1000 })).yields).toMatchObject([{ made: 2 }])
})
