import pg from 'pg'
import { expect, it, onTestFinished } from 'vitest'
import { checkInvariants } from '../../../test/conformance/invariants.js'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { fillWithStrangers } from '../../../test/services/hostile-public.js'
import { fillForViews, fillWithKeys, markGroups } from '../../../test/view-contract.js'
import { SECTIONS, type Section } from '../move/movable.js'
import { openPostgres } from './internal.js'

const BY = { who: 'ops', why: 'a test' }
const CLAIM = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['k'] }], limit: 10, isIdle: true }

it('calls no function and no operator of a stranger’s that the search path of its role would prefer', async () => {
  const url = await freshDatabase()
  const client = new pg.Client(url)
  await client.connect()
  onTestFinished(() => client.end())
  await fillWithStrangers(client)
  await expect(client.query('SELECT 1::numeric * 1::int')).rejects.toThrow('a stranger was called')

  const store = await openPostgres(url)
  onTestFinished(() => store.close())
  await store.budgets.set({ kind: 'k' }, { failures: { share: 0.5, minAttempts: 2 } })
  await store.limit({ kind: 'k' }, { concurrency: 5 }, BY)
  await fillForViews(store)
  await markGroups(store)
  const keyed = await fillWithKeys(store)
  await store.settle([{ ...keyed, outcome: { type: 'succeeded' } }])
  await store.enqueue(['a', 'b', 'c'].map(id => ({ id, kind: 'k', payload: '{}' })))
  const { tasks } = await store.claim(CLAIM)
  const [a = { id: '', token: '' }] = tasks
  await store.transaction(async tx => {
    await store.enqueueIn(tx, [{ kind: 'k', key: 'x', payload: '{}' }])
    await tx.query("SELECT redrive.enqueue('k', '{}', key => 'y', cost => '{\"a\":1}', run_at => '2100-01-01Z')")
    await store.onceIn(tx, 'once', () => 1, { fence: a })
    await store.completeIn(tx, a)
  })
  await store.settle(tasks.map(task => ({ ...task, outcome: { type: 'retry', delayMs: 5, isBackoff: true } })))
  await store.heartbeat({ worker: 'w', leaseMs: 60_000 })
  await store.cancelled('w')
  await store.edit('b', '{"n":1}', BY)
  await store.cancel(['c'], BY)
  await store.pause({ kind: 'k' }, { isPaused: true, ...BY })

  const key = await store.idempotency.claim('key', { fingerprint: 'f', leaseMs: 1000 })
  const token = key.state === 'fresh' ? key.token : ''
  expect(await store.idempotency.renew('key', token, 1000)).toBe(true)
  expect(await store.idempotency.complete('key', token, '1')).toBe(true)
  await store.idempotency.release('key', token)
  await store.idempotency.clear('key')

  const keep = { endedMs: 1e9, deadMs: 1e9, keysMs: 1e9, auditMs: 1e9 }
  await Promise.all([
    store.now(),
    store.get('b'),
    store.standing('b', 10),
    store.list({}, { limit: 10 }),
    store.count({ kind: 'k' }),
    store.countBy({}, ['kind']),
    store.retried(0, { limit: 10 }),
    store.stats(),
    store.ledger('b'),
    store.payloads(['b']),
    store.lanes(),
    store.laneRules(),
    store.workers(),
    store.audit.tail(10),
    store.budgets.list(),
    store.groups.list({}, { limit: 10 }),
    store.runs.list({}, { limit: 10 }),
    store.operations.list({}, { limit: 10 }),
    store.prunable(keep),
  ])
  for (const section of Object.keys(SECTIONS) as Section[]) await store.exportPage(section, { limit: 10 })
  await store.prune(keep, 10)
  await store.leave('w')
  for (const view of ['attempts', 'dead_letters', 'failure_groups']) await client.query(`SELECT * FROM redrive.${view}`)
  await checkInvariants(store)
})
