import { afterEach, beforeEach, expect, it } from 'vitest'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'

let folder: StoreFolder
beforeEach(async () => {
  folder = storeFolder()
  await folder.inStore(store => store.enqueue([1, 2, 3].map(() => ({ kind: 'charge', payload: '1' }))))
})
afterEach(() => folder.remove())

/** Lets one attempt fail, which is enough for the budget of these tests. */
const fail = (categories?: readonly string[]) =>
  folder.inStore(async store => {
    const rooms = [{ kinds: ['charge'], ...(categories && { categories }) }]
    const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 1, isIdle: true })
    const verdict = { class: 'retryable', code: 'http_503' } as const
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w', verdict }
    const outcome = { type: 'retry', delayMs: 0, isBackoff: true } as const
    await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
    return tasks.length
  })

it('sets, lists and lifts budgets, on record', async () => {
  expect((await folder.redrive(['budget', 'ls'])).err).toBe('No budgets.\n')
  const set = ['budget', 'set', '--kind', 'charge', '--failures', '50%', '--min-attempts', '1', '--hold', '5m']
  expect((await folder.redrive(set)).err).toBe(
    "Kind 'charge' stops while more than 50% of its attempts fail, of at least 1 within 1m.\n",
  )
  expect((await folder.redrive(['budget', 'ls'])).lines()).toEqual([
    'KIND    CATEGORY  GATE',
    'charge  all       closed',
    '  failures: 0 of 0 failed in 1m; opens above 50% of 1 or more',
  ])
  expect(await fail()).toBe(1)
  expect(await fail()).toBe(0)
  const [budget] = (await folder.redrive(['budget', 'ls', '--output', 'json'])).json()
  expect(budget).toMatchObject({
    kind: 'charge',
    category: null,
    failures: { share: 0.5, minAttempts: 1, windowMs: 60_000, holdMs: 300_000 },
    recent: { attempts: 1, failed: 1 },
    gate: { state: 'open', holds: 1, cause: { code: 'http_503', attempts: 1, failed: 1 } },
  })
  const { out } = await folder.redrive(['budget', 'ls'])
  expect(out).toMatch(/open, probes in \d/)
  expect(out).toMatch(/ {2}opened (\d+s ago|now): 1 of 1 failed, mostly http_503\n/)
  const stats = await folder.redrive(['stats'])
  expect(stats.err).toContain('3 tasks wait behind a failure budget or a cost budget: redrive budget ls\n')
  expect(stats.err).not.toContain('held lanes')
  expect(stats.lines()[0]).toMatch(/^KIND +WAITING +READY +GATED +RUNNING/)
  expect((await folder.redrive(['lane', 'ls', '--state', 'gated'])).out).toMatch(
    /charge +- +- +gated .*\n {2}probes in \d/,
  )
  expect((await folder.redrive(['lane', 'ls', '--state', 'open'])).err).toBe('No lanes.\n')
  const { lines } = await folder.redrive(['task', 'ls'])
  expect(lines().filter(line => line.endsWith('gated'))).toHaveLength(3)

  const close = await folder.redrive(['budget', 'close', '--kind', 'charge', '--why', 'it is back'])
  expect(close.err).toBe("The gate of kind 'charge' is closed now.\n")
  expect(await fail()).toBe(1)
  expect((await folder.redrive(['budget', 'close', '--kind', 'charge'])).err).toContain('is closed now')
  expect((await folder.redrive(['budget', 'close', '--kind', 'charge'])).err).toContain('was closed already')

  const lift = await folder.redrive(['budget', 'lift', '--kind', 'charge', '--why', 'no longer needed'])
  expect(lift.err).toBe("Kind 'charge' has no budget now.\n")
  expect(await fail()).toBe(1)
  const records = (await folder.redrive(['audit', 'tail', '--output', 'json'])).json()
  expect(records.map(({ event_type, why }: Record<string, unknown>) => [event_type, why])).toEqual([
    ['budget_set', null],
    ['budget_gate_closed', 'it is back'],
    ['budget_gate_closed', null],
    ['budget_lifted', 'no longer needed'],
  ])
})

it('refuses a share that is none, and a budget that is not there', async () => {
  const set = (...flags: string[]) => folder.redrive(['budget', 'set', '--kind', 'charge', ...flags])
  expect(await set('--failures', '100%')).toMatchObject({ code: 2, err: expect.stringContaining('below 100%') })
  expect((await set('--failures', '50%', '--window', '5s')).err).toContain('It must be at least 10s.')
  expect((await set('--failures', '50%', '--window', '2h')).err).toContain('It must be at most 1h.')
  const bare = await folder.redrive(['budget', 'set', '--kind', 'charge', '--failures', '50'])
  expect([bare.code, bare.err]).toEqual([2, expect.stringContaining("Did you mean '50%'?")])
  const none = await folder.redrive(['budget', 'close', '--kind', 'charge'])
  expect([none.code, none.err]).toEqual([2, expect.stringContaining("Kind 'charge' has no budget.")])
  const gone = await folder.redrive(['budget', 'lift', '--kind', 'charge'])
  expect([gone.code, gone.err]).toEqual([
    2,
    expect.stringContaining("Kind 'charge' has no budget. See: redrive budget ls"),
  ])
})

it('says that nobody knows the kind, unless a live worker runs it', async () => {
  const set = () => folder.redrive(['budget', 'set', '--kind', 'refund', '--failures', '50%'])
  expect((await set()).err).toContain('No task and no live worker has it: check the spelling')
  await folder.inStore(store => store.heartbeat({ worker: 'w', leaseMs: 60_000, kinds: ['refund'] }))
  expect((await set()).err).toBe(
    "Kind 'refund' stops while more than 50% of its attempts fail, of at least 20 within 1m.\n",
  )
})

it('sets a retry budget beside a failure budget, and shows the retries that it holds', async () => {
  await folder.redrive(['budget', 'set', '--kind', 'charge', '--failures', '90%'])
  const set = await folder.redrive(['budget', 'set', '--kind', 'charge', '--retries', '20%', '--floor', '0.1/s'])
  expect(set.err).toBe("Kind 'charge' retries at most 20% of its first attempts, or 6/m.\n")
  for (let n = 0; n < 3; n++) await fail()
  const [budget] = (await folder.redrive(['budget', 'ls', '--output', 'json'])).json()
  expect(budget).toMatchObject({
    failures: { share: 0.9 },
    retries: { share: 0.2, windowMs: 60_000, floor: 0.1, retried: 1 },
  })
  expect(budget.retries.held).toBeGreaterThan(0)
  const { out } = await folder.redrive(['budget', 'ls'])
  expect(out).toMatch(/charge +all +closed +\d, next (in|now)/)
  expect(out).toMatch(/ {2}retries: 1 passed for \d first attempts in 1m; at most 20%, or 6\/m/)

  expect((await folder.redrive(['stats'])).err).toContain('for a retry budget to let them through: redrive budget ls')
  const [task] = (await folder.redrive(['task', 'ls', '--status', 'waiting', '--output', 'json']))
    .json()
    .filter(({ isBudgeted }: { isBudgeted: boolean }) => isBudgeted)
  expect((await folder.redrive(['task', 'ls', '--status', 'waiting'])).out).toContain('held')
  const shown = await folder.redrive(['task', 'show', task.id])
  expect(shown.out).toContain(`held by its retry budget (redrive why ${task.id})`)
  expect((await folder.redrive(['why', task.id])).out).toContain("It is held by the retry budget of 'charge'")

  expect((await folder.redrive(['budget', 'set', '--kind', 'charge'])).err).toContain(
    'Pass --failures, --retries or --cost.',
  )
  const alone = await folder.redrive(['budget', 'set', '--kind', 'refund', '--failures', '50%', '--floor', '1/s'])
  expect([alone.code, alone.err]).toEqual([2, expect.stringContaining('has no retry budget yet. Pass --retries.')])
})

it('shares a retry budget between kinds that name the same dependency', async () => {
  const share = ['--retries', '20%', '--dependency', 'payments-api']
  const set = await folder.redrive(['budget', 'set', '--kind', 'charge', ...share])
  expect(set.err).toContain("retries at most 20% of the first attempts that call 'payments-api', or 1/s")
  await folder.redrive(['budget', 'set', '--kind', 'refund', ...share])
  const { out } = await folder.redrive(['budget', 'ls'])
  expect(out.match(/0 passed for 0 first attempts that call 'payments-api' in 1m/g)).toHaveLength(2)
  await folder.redrive(['budget', 'set', '--kind', 'refund', '--failures', '50%'])
  const budgets = (await folder.redrive(['budget', 'ls', '--output', 'json'])).json()
  expect(budgets.map(({ retries }: { retries: { dependency: string } }) => retries.dependency)).toEqual([
    'payments-api',
    'payments-api',
  ])
  const own = await folder.redrive(['budget', 'set', '--kind', 'refund', '--no-dependency'])
  expect(own.err).toContain('retries at most 20% of its first attempts, or 1/s')
})

it('keeps the settings of a budget that are left out', async () => {
  const shares = ['--failures', '50%', '--retries', '20%']
  const more = ['--window', '5m', '--min-attempts', '7', '--hold', '9s', '--floor', '5/s', '--dependency', 'payments']
  await folder.redrive(['budget', 'set', '--kind', 'charge', ...shares, ...more])
  await folder.redrive(['budget', 'set', '--kind', 'charge', '--failures', '60%', '--retries', '30%'])
  const budgets = async () => (await folder.redrive(['budget', 'ls', '--output', 'json'])).json()
  const [changed] = await budgets()
  expect(changed).toMatchObject({
    failures: { share: 0.6, minAttempts: 7, windowMs: 300_000, holdMs: 9000 },
    retries: { share: 0.3, windowMs: 300_000, floor: 5, dependency: 'payments' },
  })

  // One that joins a dependency does not take its settings away from the others.
  const join = ['budget', 'set', '--kind', 'refund', '--retries', '25%', '--dependency', 'payments']
  expect((await folder.redrive(join)).err).toContain("or 5/s.\nShared with kind 'charge'.\n")
  const shared = { share: 0.25, windowMs: 300_000, floor: 5, dependency: 'payments' }
  expect(await budgets()).toMatchObject([{ retries: shared }, { retries: shared }])
  await folder.redrive(['budget', 'set', '--kind', 'refund', '--retries', '10%', '--no-dependency'])
  expect(await budgets()).toMatchObject([{ retries: shared }, { retries: { share: 0.1, floor: 5, dependency: null } }])
})

it('lifts one part of a budget', async () => {
  await folder.redrive(['budget', 'set', '--kind', 'charge', '--failures', '50%', '--retries', '20%'])
  const lift = await folder.redrive(['budget', 'lift', '--kind', 'charge', '--retries'])
  expect(lift.err).toBe("Kind 'charge' has no retry budget now.\n")
  const [budget] = (await folder.redrive(['budget', 'ls', '--output', 'json'])).json()
  expect([budget.failures.share, budget.retries]).toEqual([0.5, null])
  const again = await folder.redrive(['budget', 'lift', '--kind', 'charge', '--retries'])
  expect([again.code, again.err]).toEqual([2, expect.stringContaining("Kind 'charge' has no retry budget.")])
  await folder.redrive(['budget', 'lift', '--kind', 'charge', '--failures'])
  expect((await folder.redrive(['budget', 'ls'])).err).toBe('No budgets.\n')
})

it('a redrive says so when its dead letters would wait behind an open gate', async () => {
  await folder.inStore(async store => {
    const verdict = { class: 'retryable', code: 'http_503' } as const
    const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w', verdict }
    const tried = { outcome: { type: 'dead', reason: 'attempts_exhausted' }, attempt } as const
    await store.enqueue(['charge', 'mail'].map(kind => ({ id: `dead-${kind}`, kind, payload: '1', tried })))
  })
  await folder.redrive(['budget', 'set', '--kind', 'charge', '--failures', '50%', '--min-attempts', '1'])
  await fail()
  const held =
    "The failure budget of 'charge' holds its tasks: they wait until its gate closes. To see it, run: redrive budget ls\n"
  const tryOut = async (kind: string) => (await folder.redrive(['dlq', 'redrive', '--kind', kind, '--dry-run'])).err
  expect(await tryOut('charge')).toContain(held)
  expect(await tryOut('mail')).not.toContain('failure budget')
  expect((await folder.redrive(['dlq', 'redrive', '--kind', 'charge', '--yes'])).err).toContain(held)
})

it('a redrive says nothing of a gate whose category none of its dead letters is in', async () => {
  const verdict = { class: 'retryable', code: 'http_503' } as const
  const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w', verdict }
  const tried = { outcome: { type: 'dead', reason: 'attempts_exhausted' }, attempt } as const
  await folder.inStore(store =>
    store.enqueue([
      { id: 'dead-us', kind: 'charge', category: 'us', payload: '1', tried },
      { id: 'live-eu', kind: 'charge', category: 'eu', payload: '1' },
    ]),
  )
  const set = ['--kind', 'charge', '--category', 'eu', '--failures', '50%', '--min-attempts', '1']
  await folder.redrive(['budget', 'set', ...set])
  expect(await fail(['eu'])).toBe(1)
  const tryOut = async () => (await folder.redrive(['dlq', 'redrive', '--kind', 'charge', '--dry-run'])).err
  expect(await tryOut()).not.toContain('failure budget')
  await folder.inStore(store => store.enqueue([{ kind: 'charge', category: 'eu', payload: '1', tried }]))
  expect(await tryOut()).toContain("The failure budget of 'charge' in category 'eu' holds its tasks")
})

it('sets a cost budget, and shows what is spent and until when the kind is held', async () => {
  const set = ['budget', 'set', '--kind', 'charge', '--cost', 'tokens=100', '--cost', 'dollars=2.5']
  expect(await folder.redrive(set)).toMatchObject({
    code: 0,
    err: "Kind 'charge' spends at most tokens 100, dollars 2.5 in 1d, and waits for the next window then.\n",
  })
  await folder.redrive(['budget', 'set', '--kind', 'charge', '--cost', 'tokens=50', '--cost-window', '31d'])
  await folder.inStore(async store => {
    const request = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['charge'] }], limit: 1, isIdle: true }
    for (const { id, token } of (await store.claim(request)).tasks)
      await store.settle([{ id, token, outcome: { type: 'released' }, used: { tokens: 50 } }])
  })
  const { out, lines } = await folder.redrive(['budget', 'ls'])
  expect(out).toMatch(/charge +all +spent, until in \d/)
  expect(lines()[2]).toMatch(/^ {2}cost: dollars 0 of 2\.5, tokens 50 of 50 in 31d; begins again in \d/)
  const [budget] = (await folder.redrive(['budget', 'ls', '--output', 'json'])).json()
  expect(budget).toMatchObject({ cost: { amounts: { tokens: 50, dollars: 2.5 }, used: { tokens: 50 }, isSpent: true } })
  expect((await folder.redrive(['lane', 'ls'])).out).toMatch(/charge +- +- +gated|spent, until in/)
  expect((await folder.redrive(['stats'])).err).toContain('3 tasks wait behind a failure budget or a cost budget')
  const [task] = (await folder.redrive(['task', 'ls', '--output', 'json'])).json()
  const why = await folder.redrive(['why', task.id])
  expect(why.out).toContain("The cost budget of 'charge' is spent: 0 of 2.5 dollars, 50 of 50 tokens.")
  expect(await folder.redrive(['budget', 'lift', '--kind', 'charge', '--cost'])).toMatchObject({
    code: 0,
    err: "Kind 'charge' has no cost budget now.\n",
  })
  expect((await folder.redrive(['audit', 'tail'])).out).toContain('budget_lifted')
  expect(await folder.redrive(['budget', 'set', '--kind', 'charge', '--cost', 'tokens'])).toMatchObject({ code: 2 })
  expect((await folder.redrive(['budget', 'set', '--kind', 'charge', '--cost-window', '1h'])).err).toContain(
    'Pass --cost.',
  )
})
