import pg from 'pg'
import { expect, it, onTestFinished } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { openPostgres } from './internal.js'

it('shows a death and the task that follows it together: nobody sees one without the other', async () => {
  const url = await freshDatabase()
  const store = await openPostgres(url, { listen: false })
  onTestFinished(() => store.close())
  await store.enqueue([{ id: 'letter', kind: 'k', payload: '{}' }])
  const [task] = (
    await store.claim({ worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['k'] }], limit: 1, isIdle: true })
  ).tasks

  // Whoever holds the id of the follower back holds the death back too.
  const other = new pg.Client({ connectionString: url })
  await other.connect()
  onTestFinished(() => other.end())
  await other.query('BEGIN')
  const follower = { id: 'follower', kind: 'tell', payload: '{}' }
  await store.enqueueIn(other, [follower])
  const outcome = { type: 'dead', reason: 'final_error' } as const
  const settled = store.settle([{ id: 'letter', token: task?.token ?? '', outcome, ifDead: [follower] }])
  const waiting = 'SELECT FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()'
  await expect.poll(async () => (await other.query(waiting)).rowCount).toBeGreaterThan(0)
  expect(await store.get('letter')).toMatchObject({ status: 'running' })
  await other.query('ROLLBACK')

  expect(await settled).toEqual([{ result: 'settled' }])
  expect(await store.get('letter')).toMatchObject({ status: 'dead' })
  expect(await store.get('follower')).toMatchObject({ status: 'waiting' })
})
