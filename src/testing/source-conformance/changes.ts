import assert from 'node:assert/strict'
import { collectionOf } from '../../document/internal.js'
import { DAY, dayBefore, found, ids, recordsOf, type SourceBehaviours } from './harness.js'

/** Changing documents. */
export const CHANGING: SourceBehaviours = {
  'a change takes effect, and returns the document as it is now': async scene => {
    const { source, shape, name, now } = scene
    await scene.insert(name, [{ id: 'a', status: 'pending' }])
    const document = await found(source, shape, 'a')
    const to = { status: 'processing', attemptCount: 1, lastAttemptAt: now, lastError: 'boom' }
    const [changed] = await source.change(shape, [{ document, to }])
    assert.equal(changed?.attemptCount, 1)
    const after = await found(source, shape, 'a')
    assert.deepEqual(
      [after.status, after.attemptCount, after.lastAttemptAt, after.lastError],
      ['processing', 1, now, 'boom'],
    )
    // A change of the changed document fits again.
    const back = { status: 'pending', attemptCount: 0, lastAttemptAt: null, lastError: null }
    assert.equal((await source.change(shape, [{ document: changed, to: back }])).length, 1)
    const reset = await found(source, shape, 'a')
    assert.deepEqual([reset.status, reset.attemptCount, reset.lastAttemptAt], ['pending', 0, undefined])
    assert.equal(reset.lastError, undefined)
  },
  'a change does nothing if a field is not as it was read': async scene => {
    const { source, name, now } = scene
    const { shape } = collectionOf(scene.atBegin)
    const fields = { status: 'pending', attemptCount: 1, lastAttemptTime: now - DAY, generation: 3, retryAt: now }
    const others = [
      { status: 'processing' },
      { attemptCount: 2 },
      { lastAttemptAt: now },
      { generation: 4 },
      { retryAt: now + 1000 },
    ]
    for (const [index, other] of others.entries()) {
      const id = `d${index}`
      await scene.insert(name, [{ id, ...fields }])
      const document = await found(source, shape, id)
      assert.equal((await source.change(shape, [{ document, to: other }])).length, 1)
      assert.deepEqual(await source.change(shape, [{ document, to: { attemptCount: 9 } }]), [])
      assert.notEqual((await found(source, shape, id)).attemptCount, 9)
    }
  },
  'of a batch, exactly those take effect that are as they were read': async scene => {
    const { source, other, shape, name, now } = scene
    await scene.insert(
      name,
      ids(20).map(id => ({ id, status: 'pending' })),
    )
    const read = await recordsOf(source, shape, { type: 'stuck', cut: dayBefore(now) }, 50)
    const taken = read.filter((_, index) => index % 3 === 0)
    const values = { attemptCount: 1, lastAttemptAt: now }
    await other.change(
      shape,
      taken.map(document => ({ document, to: { status: 'processed' } })),
    )
    const changed = await source.change(
      shape,
      read.map(document => ({ document, to: values })),
    )
    const takenIds = new Set(taken.map(({ id }) => id))
    assert.deepEqual(
      changed.map(({ id }) => id).sort(),
      ids(20).filter(id => !takenIds.has(id)),
    )
  },
  'a document that was deleted meanwhile is not changed, nor brought back': async scene => {
    const { source, shape, name } = scene
    await scene.insert(name, [{ id: 'a', status: 'pending' }])
    const document = await found(source, shape, 'a')
    assert.deepEqual(
      (await source.remove(shape, [document])).map(({ id }) => id),
      ['a'],
    )
    assert.deepEqual(await source.change(shape, [{ document, to: { attemptCount: 1 } }]), [])
    assert.deepEqual(await source.remove(shape, [document]), [])
    assert.equal(await source.find(shape, 'a'), undefined)
  },
  'of two that change the same documents at once, one wins each document': async scene => {
    const { source, other, shape, name, now } = scene
    const all = ids(60)
    await scene.insert(
      name,
      all.map(id => ({ id, status: 'pending' })),
    )
    const selection = { type: 'stuck', cut: dayBefore(now) } as const
    const [mine, theirs] = await Promise.all([
      recordsOf(source, shape, selection, 100),
      recordsOf(other, shape, selection, 100),
    ])
    const take = (at: typeof source, documents: typeof mine) =>
      at.change(
        shape,
        documents.map(document => ({ document, to: { attemptCount: 1, lastAttemptAt: now } })),
      )
    const [won, wonToo] = await Promise.all([take(source, mine), take(other, theirs.reverse())])
    const winners = [...won, ...wonToo].map(({ id }) => id)
    assert.equal(new Set(winners).size, winners.length)
    // A row that the other has locked may be skipped, and is found again by the next sweep.
    const left = await recordsOf(source, shape, selection, 100)
    assert.deepEqual([...winners, ...left.map(({ id }) => id)].sort(), all)
  },
  'a copy replaces an earlier one': async scene => {
    const { source, shape, name } = scene
    const into = await scene.create()
    const archive = { ...shape, name: into }
    await scene.insert(name, [{ id: 'a', status: 'failed_max_retries', attemptCount: 3 }])
    const document = await found(source, shape, 'a')
    await source.copy(shape, [document], into)
    await source.copy(shape, [document], into)
    assert.equal(await source.total(archive), 1)
    assert.equal((await found(source, archive, 'a')).attemptCount, 3)
    assert.notEqual(await source.find(shape, 'a'), undefined)
    const [again] = await source.change(shape, [{ document, to: { attemptCount: 4 } }])
    assert.ok(again !== undefined)
    // The document that was read first cannot be removed any more.
    assert.deepEqual(await source.remove(shape, [document]), [])
    await source.copy(shape, [await found(source, shape, 'a')], into)
    assert.equal((await found(source, archive, 'a')).attemptCount, 4)
    assert.deepEqual(
      (await source.remove(shape, [again])).map(({ id }) => id),
      ['a'],
    )
    assert.equal((await found(source, archive, 'a')).attemptCount, 4)
  },
  'it tells which ids another collection refers to': async scene => {
    const { source, shape, name, now } = scene
    const derived = await scene.create()
    await scene.insert(name, [
      { id: 'a', status: 'processed' },
      { id: 'b', status: 'processed' },
    ])
    await scene.insert(derived, [{ id: 'x', status: 'b' }])
    const documents = await recordsOf(source, shape, { type: 'all' }, 10)
    assert.deepEqual([...(await source.present(derived, 'status', documents))], ['b'])
    assert.ok(now > 0)
  },
}
