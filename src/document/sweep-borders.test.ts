import { beforeEach, describe, expect, it } from 'vitest'
import { archives, fenced, someArchives } from '../../test/documents.js'
import { MemoryBus } from '../bus/index.js'
import { MemoryStore } from '../store/internal.js'

import { type FakeClock, fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { collectionOf } from './collection.js'
import { documentService } from './index.js'
import { explainDocument, findDocument, requeueDocument } from './internal.js'

const HOUR = 3_600_000
const DAY = 24 * HOUR

let scene: Awaited<ReturnType<typeof someArchives>>
let clock: FakeClock
beforeEach(async () => {
  scene = await someArchives()
  clock = scene.clock
})

describe('a document exactly at its threshold', () => {
  it.each([
    ['is not stuck yet, and is under way', 0, 'under_way', 0],
    ['is stuck a millisecond later', 1, 'due', 1],
  ])('%s', async (_, older, state, requeued) => {
    scene.insert('a1', { attempt_count: 1, last_attempt_time: clock.now() - DAY - older })
    const collection = collectionOf(archives)
    const document = await findDocument(scene.source, collection, 'a1')
    const cut = { now: clock.now(), stuckBefore: clock.now() - DAY }
    expect(explainDocument(collection, document, cut)).toMatchObject({ state })
    expect((await scene.sweeps().sweep()).collections).toMatchObject([{ stuck: requeued, requeued }])
  })

  it('is requeued exactly when its backoff is over, if the threshold is 0', async () => {
    const sweep = async () => (await scene.sweeps({ stuckAfter: 0 }).sweep()).collections[0]
    scene.insert('a1', { attempt_count: 2, last_attempt_time: clock.now() })
    await clock.advance(599_999)
    expect(await sweep()).toMatchObject({ stuck: 1, requeued: 0, skipped: 1 })
    await clock.advance(1)
    expect(await sweep()).toMatchObject({ requeued: 1, skipped: 0 })
  })

  it('keeps its lease where attempts count at the beginning, although the threshold is 0', async () => {
    scene.insert('a1')
    const sweep = async () => (await scene.sweeps({ collections: [fenced], stuckAfter: 0 }).sweep()).collections[0]
    expect(await sweep()).toMatchObject({ requeued: 1 })
    const service = documentService({ source: scene.source, collection: fenced, stuckAfter: 0 })
    const attempt = await service.begin('a1', { 'document-generation': '1' })
    expect(attempt.type).toBe('begun')
    await clock.advance('23h')
    expect(await sweep()).toMatchObject({ stuck: 0 })
    await clock.advance('1h')
    expect(await sweep()).toMatchObject({ stuck: 1, requeued: 1 })
  })
})

describe('clocks that disagree', () => {
  it.each([-3 * DAY, 3 * DAY])('change nothing: the clock of the database decides, %d ms apart', async skew => {
    const sweeperClock = fakeClock(clock.now() + skew)
    scene.insert('fresh', { attempt_count: 1, last_attempt_time: clock.now() - HOUR })
    scene.insert('stuck', { attempt_count: 1, last_attempt_time: clock.now() - 25 * HOUR })
    const { collections } = await scene.sweeps({ clock: sweeperClock }).sweep()
    expect(collections).toMatchObject([{ stuck: 1, requeued: 1, oldestAgeMs: 25 * HOUR }])
    expect(await scene.taken()).toEqual(['stuck'])
    expect(scene.row('stuck')).toMatchObject({ last_attempt_time: clock.now() })
  })
})

describe('a lane that a rate limit holds', () => {
  it('postpones its documents until the store says that it is over, whatever the clock of the database says', async () => {
    const storeClock = fakeClock(clock.now() - 3 * DAY)
    const store = new MemoryStore({ clock: storeClock })
    await store.enqueue([{ kind: 'parse', payload: '{}' }])
    const rooms = [{ kinds: ['parse'] }]
    const { tasks } = await store.claim({ worker: 'w', leaseMs: HOUR, limit: 1, rooms, isIdle: true })
    const settlements = tasks.map(({ id, token }) => ({
      id,
      token,
      outcome: { type: 'deferred', delayMs: HOUR } as const,
      attempt: { attempt: 1, startedAt: storeClock.now(), endedAt: storeClock.now(), worker: 'w' },
    }))
    await store.settle(settlements)
    scene.insert('a1')
    const sweeps = scene.sweeps({ store, collections: [{ ...archives, lane: { kind: 'parse' } }] })
    expect((await sweeps.sweep()).collections).toMatchObject([{ stuck: 1, requeued: 0, postponed: 'lane' }])
    await storeClock.advance('1h')
    expect((await sweeps.sweep()).collections).toMatchObject([{ requeued: 1 }])
  })
})

describe('a sweep that is slower than its interval', () => {
  it('does not overlap with the next one, which comes an interval after its end', async () => {
    let running = 0
    let most = 0
    const starts: number[] = []
    const isHealthy = async () => {
      starts.push(clock.now())
      most = Math.max(most, ++running)
      await sleep(HOUR, clock)
      running--
      return false
    }
    scene.insert('a1')
    const job = scene.sweeps({ collections: [{ ...archives, isHealthy }], interval: '15m' })
    const began = clock.now()
    job.start()
    await clock.advance('4h')
    const stopped = job.stop()
    await clock.advance('2h')
    await stopped
    expect(most).toBe(1)
    expect(starts.map(at => (at - began) / 60_000)).toEqual([0, 75, 150, 225])
  })

  it('stops after the page that it is at, all of whose events are published', async () => {
    for (let n = 0; n < 50; n++) scene.insert(`a${n}`)
    class Stopping extends MemoryBus {
      count = 0
      override async publish(message: Parameters<MemoryBus['publish']>[0]): Promise<void> {
        if (++this.count === 15) void job.stop()
        await super.publish(message)
      }
    }
    const bus = new Stopping()
    await bus.declare({ parsing: 'archive.ingested' })
    const job = scene.sweeps({ bus, pageSize: 10 })
    expect((await job.sweep()).collections).toMatchObject([{ requeued: 20 }])
    expect(scene.db.prepare('SELECT count(*) FROM archives WHERE attempt_count = 1').pluck().get()).toBe(20)
  })
})

describe('requeueing at a time', () => {
  it('in the past makes a document due at the next sweep, once', async () => {
    scene.insert('a1', { attempt_count: 1, last_attempt_time: clock.now() })
    await requeueDocument(scene.source, scene.bus, collectionOf(fenced), 'a1', { at: 0 })
    const sweeps = scene.sweeps({ collections: [fenced] })
    expect((await sweeps.sweep()).collections).toMatchObject([{ stuck: 1, requeued: 1 }])
    expect((await sweeps.sweep()).collections).toMatchObject([{ stuck: 0 }])
    expect(await scene.taken()).toEqual(['a1'])
  })

  it('is refused for a document that the sweep would mark as failed at that time', async () => {
    scene.insert('a1', { attempt_count: 3, last_attempt_time: clock.now() })
    const requeued = requeueDocument(scene.source, scene.bus, collectionOf(fenced), 'a1', { at: clock.now() + HOUR })
    await expect(requeued).rejects.toThrow(/has used up its 3 attempts/)
    expect(scene.row('a1')).toMatchObject({ retry_at: null })
  })
})

describe('too many stuck documents', () => {
  it('are sent once, if that is confirmed twice', async () => {
    for (let n = 0; n < 150; n++) scene.insert(`a${n}`)
    const sweep = async () => (await scene.sweeps().sweep({ confirm: true })).collections
    expect(await sweep()).toMatchObject([{ stuck: 150, requeued: 150 }])
    expect(await sweep()).toMatchObject([{ stuck: 0, requeued: 0 }])
    expect(await scene.taken()).toHaveLength(150)
  })

  it('are exactly a share of the collection, and so not too many', async () => {
    for (let n = 0; n < 500; n++) scene.insert(`a${n}`, n < 100 ? {} : { status: 'processed' })
    expect((await scene.sweeps().sweep({ dryRun: true })).collections).toMatchObject([{ stuck: 100, requeued: 100 }])
    scene.insert('one more')
    expect((await scene.sweeps().sweep({ dryRun: true })).collections).toMatchObject([
      { stuck: 101, requeued: 100, tooMany: { total: 501, isHeldBack: true } },
    ])
  })
})

describe('a priority', () => {
  const recent = {
    ...archives,
    fields: { ...archives.fields, createdAt: 'created_at' },
    priority: 'recent',
    policy: { attempts: 2 },
  } as const

  it('lets each document be counted once, whatever becomes of it', async () => {
    const now = clock.now()
    for (let n = 0; n < 30; n++) {
      scene.insert(`due${n}`, { created_at: n })
      scene.insert(`waits${n}`, { created_at: n, attempt_count: 1, last_attempt_time: now - 60_000 })
      scene.insert(`over${n}`, { created_at: n, attempt_count: 2, last_attempt_time: now - DAY })
      scene.insert(`none${n}`)
    }
    const expected = { stuck: 120, requeued: 60, skipped: 30, exhausted: 30, missed: 0 }
    const blastRadius = { isWarning: true }
    const job = scene.sweeps({ collections: [{ ...recent, blastRadius }], stuckAfter: 0, pageSize: 20 })
    expect((await job.sweep({ dryRun: true })).collections).toMatchObject([expected])
    expect((await job.sweep()).collections).toMatchObject([expected])
    expect(new Set(await scene.taken()).size).toBe(60)
  })

  it('reads a very large collection in pages, and remembers none of it', async () => {
    scene.db.exec(`
      INSERT INTO archives (id, status, created_at, attempt_count, last_attempt_time)
      WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
      SELECT 'a' || n, 'pending', n, 1, ${clock.now() - 60_000} FROM numbers`)
    await scene.source.createIndexes(collectionOf(recent).shape)
    let largest = 0
    const { walk } = scene.source
    scene.source.walk = async function* (shape, selection, options) {
      for await (const page of walk.call(scene.source, shape, selection, options)) {
        largest = Math.max(largest, page.length)
        yield page
      }
    }
    const [report] = (await scene.sweeps({ collections: [recent], stuckAfter: 0 }).sweep()).collections
    // All of them are in backoff, so that no limit ends the sweep.
    expect(report).toMatchObject({ stuck: 20_000, skipped: 20_000, requeued: 0 })
    expect(largest).toBe(90)
  })
})
