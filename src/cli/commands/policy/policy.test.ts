import { afterEach, beforeEach, expect, it } from 'vitest'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'
import { hashJson, policy } from '../../../policy/index.js'
import type { AttemptEntry, Outcome, StoreContract } from '../../../store/internal.js'

let folder: StoreFolder
beforeEach(() => {
  folder = storeFolder()
})
afterEach(() => folder.remove())

const DAY = 86_400_000
const POLICY = policy({ attempts: 4, retryOn: 'all', giveUpOn: [404] })
const AGAIN = { type: 'retry', delayMs: 0, isBackoff: true } as const
const DEAD = { type: 'dead', reason: 'attempts_exhausted' } as const
const SUCCEEDED = { type: 'succeeded' } as const

interface Tasks {
  readonly count?: number
  readonly code: string
  readonly ends: readonly Outcome[]
  readonly daysAgo?: number
  readonly category?: string
}

/** Makes tasks that fail with a code, and end so. */
function make({ count = 1, code, ends, daysAgo = 0, category = '' }: Tasks): Promise<void> {
  return folder.inStore(async store => {
    const hash = hashJson(POLICY)
    await store.policies.keep(hash, JSON.stringify(POLICY))
    await store.enqueue(Array.from({ length: count }, () => ({ kind: 'charge', category, payload: '1' })))
    const verdict = { class: 'retryable', code } as const
    for (const [index, outcome] of ends.entries()) {
      const failed = outcome === SUCCEEDED ? {} : { verdict, error: 'Error', random: 0, policy: hash }
      await attemptAll(store, outcome, { attempt: index + 1, daysAgo, ...failed })
    }
  })
}

/** Makes an attempt of every task that waits. */
async function attemptAll(
  store: StoreContract,
  outcome: Outcome,
  { daysAgo = 0, ...entry }: Partial<AttemptEntry> & { readonly attempt: number; readonly daysAgo?: number },
): Promise<void> {
  const rooms = [{ kinds: ['charge'] }]
  const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 1000, isIdle: true })
  const at = now - daysAgo * DAY
  const attempt = { startedAt: at, endedAt: at, worker: 'w', ...entry }
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
}

it('reports what retries were worth, and the change of the policy', async () => {
  for (const daysAgo of [12, 5, 4, 0]) {
    await make({ count: 20, code: 'http_422', ends: [AGAIN, AGAIN, AGAIN, DEAD], daysAgo })
  }
  await make({ count: 10, code: 'http_502', ends: [AGAIN, AGAIN, SUCCEEDED] })
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
None of 80 tasks succeeded on attempts 2 to 4 or after a redrive in the 12 days on record, at most 4.5 % in the long run.
The change would have saved 240 attempts.
In its policy: {"giveUpOn":[404,422]}
`)
  const { advice } = (await folder.redrive(['policy', 'report', '--output', 'json'])).json() as { advice: unknown[] }
  expect(advice).toMatchObject([{ advice: 'final', code: 'http_422', days: 4, tasks: 80, saved: 240 }])
})

it('takes failures on few days for an outage, and advises a failure budget', async () => {
  await make({ count: 450, code: 'http_500', ends: [AGAIN, AGAIN, DEAD] })
  const outage = await folder.redrive(['policy', 'report'])
  expect(outage.lines()).toHaveLength(3)
  expect(outage.err).toBe(`
charge: retries after http_500 failed on one day only, which looks like an outage.
Advice needs failures on at least 3 days. Against outages, set a failure budget:
redrive budget set --kind charge --failures 50%
`)
  await make({ count: 80, code: 'http_500', ends: [AGAIN, SUCCEEDED], category: 'gold plan' })
  await make({ count: 80, code: 'http_500', ends: [AGAIN, AGAIN, DEAD], category: 'gold plan', daysAgo: 1 })
  await make({ count: 80, code: 'http_500', ends: [AGAIN, AGAIN, DEAD], category: 'gold plan', daysAgo: 2 })
  expect((await folder.redrive(['policy', 'report'])).err).toContain(`
charge, gold plan: attempt 3 failed on 2 days only, which looks like an outage.
Advice needs failures on at least 3 days. Against outages, set a failure budget:
redrive budget set --kind charge --category 'gold plan' --failures 50%
`)
})

it('counts a redriven task once, and its success after the redrive', async () => {
  for (const daysAgo of [2, 1, 0]) await make({ count: 30, code: 'http_500', ends: [AGAIN, DEAD], daysAgo })
  await folder.inStore(async store => {
    const { items } = await store.list({ status: 'dead' }, { limit: 100 })
    const ids = items.map(({ id }) => id)
    expect(await store.redrive(ids, { who: 'ann' })).toHaveLength(90)
    await attemptAll(store, SUCCEEDED, { attempt: 1 })
  })
  const { err, lines } = await folder.redrive(['policy', 'report'])
  expect(lines()[1]).toBe('charge  http_500  2        90    0          0 % (0 % to 4 %)')
  expect(err).toBe(
    'No policy to change: after each of these errors, tasks have succeeded on a retry or after a redrive.\n',
  )
})

it('does not praise retries that never helped, if they are too few to tell', async () => {
  await make({ code: 'http_502', ends: [AGAIN, SUCCEEDED] })
  expect((await folder.redrive(['policy', 'report'])).err).toBe(
    'No policy to change: retries have helped after each of these errors.\n',
  )
  await make({ code: 'http_409', ends: [AGAIN, DEAD] })
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
