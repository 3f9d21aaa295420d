import assert from 'node:assert/strict'
import { collectionOf } from '../../document/internal.js'
import { DAY, dayBefore, found, HOUR, idsOf, recordsOf, type SourceBehaviours } from './harness.js'

/** Finding documents. */
export const FINDING: SourceBehaviours = {
  'a document without tracking fields has no attempts and was never attempted': async scene => {
    const { source, shape, name, now } = scene
    await scene.insert(name, [{ id: 'bare', status: 'pending' }])
    const [document] = await recordsOf(source, shape, { type: 'stuck', cut: dayBefore(now) })
    assert.equal(document?.attemptCount, 0)
    assert.equal(document.lastAttemptAt, undefined)
    assert.equal(document.problem, undefined)
  },
  'open documents are stuck if they were never attempted, or not since the cut': async scene => {
    const { source, shape, name, now } = scene
    await scene.insert(name, [
      { id: 'new', status: 'pending', attemptCount: 0 },
      { id: 'old', status: 'processing', attemptCount: 1, lastAttemptTime: now - DAY - 1000 },
      { id: 'older', status: 'pending', attemptCount: 9, lastAttemptTime: now - 3 * DAY },
      { id: 'fresh', status: 'processing', attemptCount: 1, lastAttemptTime: now - HOUR },
      { id: 'done', status: 'processed', attemptCount: 1, lastAttemptTime: now - 9 * DAY },
      { id: 'failed', status: 'failed_max_retries', attemptCount: 3, lastAttemptTime: now - 9 * DAY },
    ])
    const cut = dayBefore(now)
    assert.deepEqual(await idsOf(source, shape, { type: 'stuck', cut }), ['older', 'old', 'new'])
    const survey = await source.survey(shape, cut)
    assert.deepEqual(survey, { stuck: 3, failed: 1, oldestAt: now - 3 * DAY })
    assert.equal(await source.total(shape), 6)
    assert.deepEqual(await idsOf(source, shape, { type: 'failed' }), ['failed'])
  },
  'a document exactly at the threshold is not stuck yet, and one exactly at its time is due': async scene => {
    const { source, name, now } = scene
    const fields = { ...scene.atBegin.fields, createdAt: 'createdAt' }
    const { shape } = collectionOf({ ...scene.atBegin, fields })
    const cut = dayBefore(now)
    await scene.insert(name, [
      { id: 'attempted-before', status: 'pending', lastAttemptTime: cut.stuckBefore - 1 },
      { id: 'attempted-at', status: 'pending', lastAttemptTime: cut.stuckBefore },
      { id: 'created-before', status: 'pending', createdAt: cut.stuckBefore - 1 },
      { id: 'created-at', status: 'pending', createdAt: cut.stuckBefore },
      { id: 'due-at', status: 'pending', retryAt: now },
      { id: 'due-after', status: 'pending', retryAt: now + 1 },
    ])
    const stuck = ['due-at', 'attempted-before', 'created-before']
    assert.deepEqual(await idsOf(source, shape, { type: 'stuck', cut }), stuck)
    assert.equal((await source.survey(shape, cut)).stuck, stuck.length)
  },
  'documents that were never attempted come with the oldest first, whatever their ids': async scene => {
    const { source, name, now } = scene
    const { shape } = collectionOf({
      ...scene.collection,
      fields: { ...scene.collection.fields, createdAt: 'createdAt' },
    })
    await scene.insert(name, [
      ...[3, 4, 5, 6].map(days => ({ id: `c${days}`, status: 'pending', createdAt: now - days * DAY })),
      { id: 'b', status: 'processing', createdAt: now - 4 * DAY - HOUR },
      { id: 'z', status: 'pending', createdAt: now - 9 * DAY },
      { id: 'unknown', status: 'pending' },
      { id: 'new', status: 'pending', createdAt: now - HOUR },
    ])
    const stuck = ['unknown', 'z', 'c6', 'c5', 'b', 'c4', 'c3']
    for (const pageSize of [1, 2, 10])
      assert.deepEqual(await idsOf(source, shape, { type: 'stuck', cut: dayBefore(now) }, pageSize), stuck)
    assert.equal((await source.survey(shape, dayBefore(now))).stuck, stuck.length)
  },
  'a document is found by its id, whatever characters that has': async scene => {
    const { source, shape, name, now } = scene
    const odd = [`it's "quoted"`, '50 %', '$where', '@id', 'a\\b', 'naïve — 日本 🚀', ' ', '0x1', '-1', '00042', 'null']
    await scene.insert(
      name,
      odd.map(id => ({ id, status: 'pending' })),
    )
    for (const id of odd) {
      const document = await found(source, shape, id)
      assert.equal(document.id, id)
      assert.equal((await source.change(shape, [{ document, to: { attemptCount: 1 } }])).length, 1)
    }
    assert.deepEqual((await idsOf(source, shape, { type: 'stuck', cut: dayBefore(now) })).sort(), [...odd].sort())
    const derived = await scene.create()
    await scene.insert(
      derived,
      odd.slice(1).map((id, index) => ({ id: String(index), status: id })),
    )
    const documents = await recordsOf(source, shape, { type: 'all' }, 5)
    assert.deepEqual([...(await source.present(derived, 'status', documents))].sort(), odd.slice(1).sort())
  },
  'a walk gives each document once, whatever the size of its pages': async scene => {
    const { source, shape, name, now } = scene
    const documents = Array.from({ length: 23 }, (_, index) => ({
      id: `d${index}`,
      status: 'pending',
      attemptCount: 1,
      // Many share a time, so pages end between equals.
      lastAttemptTime: index % 3 === 0 ? undefined : now - 2 * DAY - (index % 4) * 1000,
    }))
    await scene.insert(name, documents)
    const all = documents.map(({ id }) => id).sort()
    for (const pageSize of [1, 2, 5, 23, 100]) {
      const walked = await idsOf(source, shape, { type: 'stuck', cut: dayBefore(now) }, pageSize)
      assert.deepEqual(walked.sort(), all)
      assert.deepEqual((await idsOf(source, shape, { type: 'all' }, pageSize)).sort(), all)
    }
  },
  'a walk ends while its documents are changed': async scene => {
    const { source, shape, name, now } = scene
    const documents = Array.from({ length: 9 }, (_, index) => ({ id: `d${index}`, status: 'pending' }))
    await scene.insert(name, documents)
    let count = 0
    for await (const page of source.walk(shape, { type: 'stuck', cut: dayBefore(now) }, { pageSize: 2 })) {
      count += page.length
      await source.change(
        shape,
        page.map(document => ({ document, to: { attemptCount: 1, lastAttemptAt: now } })),
      )
    }
    assert.equal(count, 9)
    assert.equal((await source.survey(shape, dayBefore(now))).stuck, 0)
  },
  'where a creation time is known, a document that was never attempted must be that old': async scene => {
    const { source, name, now } = scene
    const fields = { ...scene.collection.fields, createdAt: 'createdAt' }
    const { shape } = collectionOf({ ...scene.collection, fields })
    await scene.insert(name, [
      { id: 'waits', status: 'pending', createdAt: now - HOUR },
      { id: 'stuck', status: 'pending', createdAt: now - 2 * DAY },
      { id: 'unknown', status: 'pending' },
    ])
    const cut = dayBefore(now)
    assert.deepEqual((await idsOf(source, shape, { type: 'stuck', cut })).sort(), ['stuck', 'unknown'])
    assert.deepEqual(await source.survey(shape, cut), { stuck: 2, failed: 0, oldestAt: now - 2 * DAY })
  },
  'a time for the next attempt decides alone, where there is one': async scene => {
    const { source, name, now } = scene
    const { shape } = collectionOf(scene.atBegin)
    await scene.insert(name, [
      { id: 'leased', status: 'processing', lastAttemptTime: now - 2 * DAY, retryAt: now + HOUR },
      { id: 'expired', status: 'processing', lastAttemptTime: now - HOUR, retryAt: now - 1000 },
      { id: 'never', status: 'pending' },
      { id: 'old', status: 'pending', lastAttemptTime: now - 2 * DAY },
      { id: 'fresh', status: 'pending', lastAttemptTime: now - HOUR },
    ])
    const cut = dayBefore(now)
    assert.deepEqual(await idsOf(source, shape, { type: 'stuck', cut }), ['expired', 'old', 'never'])
    assert.equal((await source.survey(shape, cut)).stuck, 3)
  },
  'a priority orders stuck documents, highest first, without those that have none': async scene => {
    const { source, name, now } = scene
    const { shape } = collectionOf({ ...scene.collection, priority: { field: 'priority' } })
    await scene.insert(name, [
      { id: 'low', status: 'pending', priority: 1 },
      { id: 'none', status: 'pending' },
      { id: 'high', status: 'pending', lastAttemptTime: now - 2 * DAY, priority: 9 },
      { id: 'middle', status: 'pending', priority: 5 },
      { id: 'fresh', status: 'pending', lastAttemptTime: now, priority: 99 },
    ])
    const walked: string[] = []
    const selection = { type: 'stuck', cut: dayBefore(now) } as const
    for await (const page of source.walk(shape, selection, { pageSize: 2, order: 'priority' }))
      walked.push(...page.map(({ id }) => id))
    assert.deepEqual(walked, ['high', 'middle', 'low'])
  },
  'a document is found by its id, with all its data': async scene => {
    const { source, shape, name, now } = scene
    await scene.insert(name, [{ id: 'a', status: 'pending', attemptCount: 2, lastAttemptTime: now, priority: 7 }])
    const document = await found(source, shape, 'a')
    assert.equal(document.attemptCount, 2)
    assert.equal(document.lastAttemptAt, now)
    assert.equal(Number(document.data.priority), 7)
    assert.equal(await source.find(shape, 'b'), undefined)
  },
  'a collection that does not exist is an error that names it': async ({ source, shape, now }) => {
    const missing = { ...shape, name: 'no_such_collection' }
    await assert.rejects(source.survey(missing, dayBefore(now)), (error: { code?: unknown; message: string }) => {
      assert.equal(error.code, 'no_collection')
      assert.match(error.message, /no_such_collection/)
      return true
    })
    const here = { code: 'no_collection' }
    await assert.rejects(source.present('no_such_collection', 'status', []), here)
  },
  'the indexes that it needs can be printed, and created twice': async scene => {
    const { source, shape, name, now } = scene
    const statements = await source.indexes(shape)
    assert.ok(statements.length > 0)
    assert.ok(statements.every(statement => statement.includes(name)))
    await source.createIndexes(shape)
    await source.createIndexes(shape)
    await scene.insert(name, [{ id: 'a', status: 'pending' }])
    assert.deepEqual(await idsOf(source, shape, { type: 'stuck', cut: dayBefore(now) }), ['a'])
  },
}
