import assert from 'node:assert/strict'
import { documentService, sweeper } from '../../document/index.js'
import { collectionOf } from '../../document/internal.js'
import { busFor, DAY, found, HOUR, ids, type SourceBehaviours } from './harness.js'

/** Sweeps and services on the source. */
export const SWEEPING: SourceBehaviours = {
  'a sweep requeues what is due, leaves what is in backoff, and marks what is exhausted': async scene => {
    const { source, collection, shape, name, now } = scene
    await scene.insert(name, [
      { id: 'due', status: 'pending', attemptCount: 1, lastAttemptTime: now - 6 * 60_000 },
      { id: 'waits', status: 'pending', attemptCount: 2, lastAttemptTime: now - 5 * 60_000 },
      { id: 'over', status: 'processing', attemptCount: 3, lastAttemptTime: now - 2 * DAY },
    ])
    const { bus, sent } = await busFor(collection)
    const { collections } = await sweeper({ source, bus, collections: [collection], stuckAfter: 0 }).sweep()
    const [report] = collections
    assert.equal(report?.failure, undefined)
    assert.deepEqual([report?.stuck, report?.requeued, report?.skipped, report?.exhausted], [3, 1, 1, 1])
    assert.deepEqual(await sent(), ['due'])
    const due = await found(source, shape, 'due')
    assert.equal(due.attemptCount, 2)
    assert.ok((due.lastAttemptAt ?? 0) >= now)
    assert.equal((await found(source, shape, 'over')).status, 'failed_max_retries')
    assert.equal((await found(source, shape, 'waits')).attemptCount, 2)
  },
  'two sweepers at once publish each document once, and count it once': async scene => {
    const { source, other, collection, shape, name } = scene
    const all = ids(80)
    await scene.insert(
      name,
      all.map(id => ({ id, status: 'pending' })),
    )
    const { bus, sent } = await busFor(collection)
    const sweep = (at: typeof source) => sweeper({ source: at, bus, collections: [collection], pageSize: 7 }).sweep()
    await Promise.all([sweep(source), sweep(other)])
    // A row that one of them had locked may be left over.
    await sweep(source)
    assert.deepEqual(await sent(), all)
    for (const id of all) assert.equal((await found(source, shape, id)).attemptCount, 1)
  },
  'an attempt that counts at its beginning is fenced by its generation': async scene => {
    const { source, atBegin, name, now } = scene
    const { shape } = collectionOf(atBegin)
    await scene.insert(name, [{ id: 'a', status: 'pending', lastAttemptTime: now - 2 * DAY, attemptCount: 1 }])
    const service = documentService({ source, collection: atBegin })
    const { bus, sent } = await busFor(atBegin)
    const sweeps = sweeper({ source, bus, collections: [atBegin] })
    await sweeps.sweep()
    assert.equal((await found(source, shape, 'a')).attemptCount, 1)
    const stamp = { 'document-generation': String((await found(source, shape, 'a')).generation) }
    const attempt = await service.begin('a', stamp)
    assert.equal(attempt.type, 'begun')
    // The same event, delivered again, has nothing left to do.
    assert.equal((await service.begin('a', stamp)).type, 'superseded')
    if (attempt.type !== 'begun') return
    assert.equal(attempt.attempt, 2)
    assert.equal(await service.renew(attempt), true)
    assert.equal(await service.complete(attempt), true)
    assert.equal(await service.complete(attempt), false)
    assert.equal((await found(source, shape, 'a')).status, 'processed')
    await sweeps.sweep()
    assert.deepEqual(await sent(), ['a'])
  },
  'of two that begin at once, one begins': async scene => {
    const { source, other, atBegin, name, now } = scene
    await scene.insert(name, [{ id: 'a', status: 'pending', generation: 4, retryAt: now + HOUR }])
    const begin = (at: typeof source) =>
      documentService({ source: at, collection: atBegin }).begin('a', { 'document-generation': '4' })
    const beginnings = await Promise.all([begin(source), begin(other), begin(source), begin(other)])
    assert.deepEqual(beginnings.map(({ type }) => type).sort(), ['begun', 'superseded', 'superseded', 'superseded'])
    const { shape } = collectionOf(atBegin)
    assert.equal((await found(source, shape, 'a')).attemptCount, 1)
  },
}
