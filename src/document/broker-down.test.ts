import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startProxy } from '../../test/services/proxy.js'
import { BROKER_MS, sharedBroker, unique } from '../../test/services/shared-broker.js'
import { openNats } from '../bus/nats/index.js'
import { openRabbitmq } from '../bus/rabbitmq/index.js'
import { openSqliteSource, sweeper } from './index.js'

const OPEN = { rabbitmq: openRabbitmq, nats: openNats } as const

describe.each(['rabbitmq', 'nats'] as const)('a sweep while %s is down', broker => {
  it('costs the documents of one page an attempt, and the next sweep requeues the others', {
    timeout: BROKER_MS,
  }, async () => {
    const { url } = await sharedBroker(broker)
    const type = unique('archive')
    const near = await OPEN[broker](url)
    onTestFinished(() => near.close())
    await near.declare({ [type]: type })
    const proxy = await startProxy(url)
    const bus = await OPEN[broker](proxy.through(url), { timeout: '1s' })
    onTestFinished(() => bus.close())

    const db = new Database(':memory:')
    db.exec('CREATE TABLE archives (id TEXT PRIMARY KEY, status TEXT, attemptCount INTEGER, lastAttemptTime TEXT)')
    const insert = db.prepare(`INSERT INTO archives VALUES (?, 'pending', 1, '2026-01-01T00:00:00.000Z')`)
    for (let n = 0; n < 10; n++) insert.run(`a${n}`)
    const event = { type, data: () => ({}) }
    const source = await openSqliteSource(db)
    const sweep = () => sweeper({ source, bus, collections: [{ name: 'archives', event }], pageSize: 4 }).sweep()
    const counts = db.prepare('SELECT attemptCount, COUNT(*) AS documents FROM archives GROUP BY 1 ORDER BY 1')

    // Nobody answers there any more, and no new connection comes up. Until the client knows, an event may be on its way.
    await proxy.close()
    const probe = () => bus.publish({ id: '1', type: `${type}-probe`, body: '' }).catch(error => error.code)
    await expect.poll(probe, { timeout: 30_000 }).toBe('bus_unavailable')
    expect((await sweep()).collections).toMatchObject([{ stuck: 10, requeued: 0, publishErrors: 4 }])
    const spent = { attemptCount: 2, documents: 4 }
    expect(counts.all()).toEqual([{ attemptCount: 1, documents: 6 }, spent])

    const again = await OPEN[broker](url)
    onTestFinished(() => again.close())
    const job = sweeper({ source, bus: again, collections: [{ name: 'archives', event }], pageSize: 4 })
    expect((await job.sweep()).collections).toMatchObject([{ requeued: 6, publishErrors: 0 }])
    expect((await near.status({ [type]: type }))[0]?.messages).toBe(6)
  })
})
