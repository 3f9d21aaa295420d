import assert from 'node:assert/strict'
import { BusUnavailableError } from '../../bus/index.js'
import { documentService, sweeper } from '../../document/index.js'
import { collectionOf } from '../../document/internal.js'
import { busFor, DAY, found, HOUR, ids, type SourceBehaviours, wrapped } from './harness.js'

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
  'sweeps that prefer recent documents, and send a few at a time, send the oldest too': async scene => {
    const { source, name, now } = scene
    const fields = { ...scene.collection.fields, createdAt: 'createdAt' }
    const blastRadius = { atLeast: 1, first: 20 }
    const collection = { ...scene.collection, fields, priority: 'recent', blastRadius } as const
    await scene.insert(name, [
      ...ids(60).map((id, index) => ({ id, status: 'pending', createdAt: now - 2 * DAY - index })),
      { id: 'zz', status: 'pending', createdAt: now - 9 * DAY },
    ])
    const { bus, sent } = await busFor(collection)
    const [report] = (await sweeper({ source, bus, collections: [collection] }).sweep()).collections
    assert.deepEqual([report?.failure, report?.requeued], [undefined, 20])
    const published = await sent()
    assert.ok(published.includes('zz'), 'the oldest goes with the first sweep')
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
  'documents of a sweeper that died between update and publish are found again when their time comes': async scene => {
    const { source, name, now } = scene
    for (const [id, collection] of Object.entries({ a: scene.collection, b: scene.atBegin })) {
      await scene.insert(name, [{ id, status: 'pending', attemptCount: 1, lastAttemptTime: now - 2 * DAY }])
      const { bus, sent } = await busFor(collection)
      const dying = wrapped(source, {
        change: async (...args) => {
          await source.change(...args)
          throw new Error('killed')
        },
      })
      const [died] = (await sweeper({ source: dying, bus, collections: [collection] }).sweep()).collections
      assert.match(String(died?.failure), /killed/)
      const [left] = (await sweeper({ source, bus, collections: [collection] }).sweep()).collections
      assert.equal(left?.stuck, 0)
      const { shape, countsAtBegin } = collectionOf(collection)
      const document = await found(source, shape, id)
      assert.equal(document.attemptCount, countsAtBegin ? 1 : 2)
      // Its time comes.
      const to = countsAtBegin ? { retryAt: now - 1000 } : { lastAttemptAt: now - 2 * DAY }
      await source.change(shape, [{ document, to }])
      const [again] = (await sweeper({ source, bus, collections: [collection] }).sweep()).collections
      assert.equal(again?.requeued, 1)
      assert.deepEqual(await sent(), [id])
      await source.change(shape, [{ document: await found(source, shape, id), to: { status: 'processed' } }])
    }
  },
  'a broker that is down ends the sweep at its first page, which costs an attempt only where the requeue counts':
    async scene => {
      const { source, name, now } = scene
      const before = ids(6)
      await scene.insert(
        name,
        before.map(id => ({ id, status: 'pending', attemptCount: 1, lastAttemptTime: now - 2 * DAY })),
      )
      // The one that counts at the beginning leaves the documents as they are, but for their generation.
      for (const collection of [scene.atBegin, scene.collection]) {
        const { bus } = await busFor(collection)
        bus.publish = async () => {
          throw new BusUnavailableError('the broker')
        }
        const [report] = (await sweeper({ source, bus, collections: [collection], pageSize: 4 }).sweep()).collections
        assert.deepEqual([report?.failure, report?.publishErrors, report?.requeued], [undefined, 4, 0])
        const spent = collection === scene.collection ? before.slice(0, 4) : []
        for (const id of before) {
          const document = await found(source, scene.shape, id)
          assert.equal(document.attemptCount, spent.includes(id) ? 2 : 1)
          assert.equal(document.lastAttemptAt === now - 2 * DAY, !spent.includes(id))
        }
      }
      const { bus, sent } = await busFor(scene.collection)
      await sweeper({ source, bus, collections: [scene.collection], pageSize: 4 }).sweep()
      assert.deepEqual(await sent(), before.slice(4))
    },
  'a document that is completed or deleted between query and update is left alone': async scene => {
    const { source, other, collection, shape, name } = scene
    await scene.insert(
      name,
      ids(5).map(id => ({ id, status: 'pending' })),
    )
    const [completed = '', deleted = '', ...others] = ids(5)
    const late = wrapped(source, {
      change: async (...args) => {
        const document = await found(other, shape, completed)
        await other.change(shape, [{ document, to: { status: 'processed' } }])
        await other.remove(shape, [await found(other, shape, deleted)])
        return source.change(...args)
      },
    })
    const { bus, sent } = await busFor(collection)
    const [report] = (await sweeper({ source: late, bus, collections: [collection] }).sweep()).collections
    assert.deepEqual([report?.failure, report?.requeued, report?.missed], [undefined, 3, 2])
    assert.deepEqual(await sent(), others)
    assert.equal((await found(source, shape, completed)).attemptCount, 0)
    assert.equal(await source.find(shape, deleted), undefined)
  },
  'a collection that does not exist does not keep the others from being swept': async scene => {
    const { source, collection, name } = scene
    await scene.insert(name, [{ id: 'a', status: 'pending' }])
    const { bus, sent } = await busFor(collection)
    const collections = [{ ...collection, name: 'no_such_collection' }, collection]
    const report = await sweeper({ source, bus, collections }).sweep()
    assert.equal(report.failure, undefined)
    assert.match(String(report.collections[0]?.failure), /no_such_collection/)
    assert.deepEqual(await sent(), ['a'])
  },
  'a sweep under full load ends, and requeues all that was stuck when it began': async scene => {
    const { source, other, collection, shape, name, now } = scene
    const stuck = ids(12)
    await scene.insert(name, [
      ...stuck.map((id, n) => ({ id, status: 'pending', ...(n % 2 === 0 && { lastAttemptTime: now - 2 * DAY }) })),
      ...['hot1', 'hot2'].map(id => ({ id, status: 'processing', attemptCount: 1, lastAttemptTime: now })),
    ])
    // Services write to other documents all the time, and with every page of the sweep a page of new documents comes in.
    let isLoaded = true
    const load = async (at: typeof source, id: string) => {
      while (isLoaded) {
        const document = await found(at, shape, id)
        await at.change(shape, [{ document, to: { attemptCount: document.attemptCount + 1 } }])
        await new Promise(resolve => setImmediate(resolve))
      }
    }
    let pages = 0
    const filling = wrapped(source, {
      change: async (...args) => {
        if (++pages < 50)
          await scene.insert(
            name,
            ids(4).map(id => ({ id: `new${String(pages).padStart(3, '0')}${id}`, status: 'pending' })),
          )
        return source.change(...args)
      },
    })
    const { bus, sent } = await busFor(collection)
    const loads = [load(source, 'hot1'), load(other, 'hot2')]
    const sweeping = sweeper({ source: filling, bus, collections: [collection], pageSize: 4 }).sweep()
    const { collections } = await sweeping.finally(() => {
      isLoaded = false
    })
    await Promise.all(loads)
    assert.equal(collections[0]?.failure, undefined)
    const requeued = await sent()
    assert.deepEqual(
      requeued.filter(id => !id.startsWith('new')),
      stuck,
    )
    // The new documents wait for the next sweep, or the sweep would go on for as long as they come in.
    assert.ok(requeued.length < stuck.length + 8, `${requeued.length} were requeued`)
  },
  'a backlog longer than threshold and attempts leaves no document dead that never ran': async scene => {
    const { source, atBegin, name, now } = scene
    const { shape } = collectionOf(atBegin)
    await scene.insert(name, [{ id: 'a', status: 'pending' }])
    const { bus, headers } = await busFor(atBegin)
    for (let n = 0; n < 5; n++) {
      const [report] = (await sweeper({ source, bus, collections: [atBegin] }).sweep()).collections
      assert.deepEqual([report?.requeued, report?.exhausted], [1, 0])
      const document = await found(source, shape, 'a')
      await source.change(shape, [{ document, to: { retryAt: now - 1000 } }])
    }
    assert.deepEqual((await found(source, shape, 'a')).attemptCount, 0)
    const service = documentService({ source, collection: atBegin })
    const beginnings: string[] = []
    for (const stamp of await headers()) beginnings.push((await service.begin('a', stamp)).type)
    assert.deepEqual(beginnings, ['superseded', 'superseded', 'superseded', 'superseded', 'begun'])
    assert.equal((await found(source, shape, 'a')).attemptCount, 1)
  },
  'documents go by priority, nine of ten, whether the sweep sends all or not': async scene => {
    const { source, name } = scene
    const collection = { ...scene.collection, priority: { field: 'priority' } }
    const all = ids(30)
    await scene.insert(
      name,
      all.map((id, priority) => ({ id, status: 'pending', priority })),
    )
    const { bus, inOrder } = await busFor(collection)
    const sweep = (options: object) =>
      sweeper({ source, bus, collections: [{ ...collection, ...options }], pageSize: 10 }).sweep()
    await sweep({ blastRadius: { atLeast: 1, first: 10 } })
    const first = await inOrder()
    assert.deepEqual(first, [...all.slice(21).reverse(), 'd00001'])
    await sweep({})
    const second = await inOrder()
    assert.deepEqual(second.slice(0, 10), [...all.slice(12, 21).reverse(), 'd00002'])
    assert.deepEqual([...first, ...second].sort(), all)
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
