import { beforeEach, describe, expect, it } from 'vitest'
import { archives, fenced, someArchives } from '../../test/documents.js'
import { BusUnavailableError, MemoryBus, PublishUnconfirmedError } from '../bus/index.js'
import { MemoryStore } from '../store/internal.js'

import type { FakeClock } from '../testing/index.js'
import { type CollectionOptions, collectionOf } from './collection.js'
import { type DocumentSource, expect as expecting, openSqliteSource } from './index.js'
import { requeueDocument } from './internal.js'

const DAY = 86_400_000

let scene: Awaited<ReturnType<typeof someArchives>>
let clock: FakeClock
beforeEach(async () => {
  scene = await someArchives()
  clock = scene.clock
})

/** The source, with one verb that fails, or that others come before. */
async function sourceWith(verbs: Partial<DocumentSource>): Promise<DocumentSource> {
  return Object.assign(await openSqliteSource(scene.db, { clock }), verbs)
}

describe('a document of which no event can be made', () => {
  const picky: CollectionOptions = {
    ...archives,
    event: {
      type: 'archive.ingested',
      data: ({ id }) => {
        if (id.startsWith('bad')) throw new TypeError(`${id} has no path`)
        return { archive_id: id }
      },
    },
  }

  it('is reported and spends nothing, and does not hold up those behind it', async () => {
    for (const id of ['bad1', 'bad2', 'bad3', 'good1', 'good2']) scene.insert(id)
    const [report] = (await scene.sweeps({ collections: [picky], pageSize: 2 }).sweep()).collections
    expect(report).toMatchObject({
      requeued: 2,
      documentErrors: 3,
      publishErrors: 0,
      documentError: { message: 'bad1 has no path' },
    })
    expect(await scene.taken()).toEqual(['good1', 'good2'])
    expect(scene.row('bad1')).toMatchObject({ attempt_count: null, last_attempt_time: null })
  })

  it('cannot be requeued by hand either, and stays as it is', async () => {
    scene.insert('bad1', { attempt_count: 1, last_attempt_time: 5 })
    const requeued = requeueDocument(scene.source, scene.bus, collectionOf(picky), 'bad1')
    await expect(requeued).rejects.toThrow('bad1 has no path')
    expect(scene.row('bad1')).toMatchObject({ attempt_count: 1, last_attempt_time: 5 })
  })
})

describe('a document that was requeued by hand, and whose publish fails', () => {
  it.each([
    ['the broker is down', new BusUnavailableError('RabbitMQ')],
    ['the event may be in the queue', new PublishUnconfirmedError('x', 'RabbitMQ')],
  ])('has spent its attempt where the requeue counts: %s', async (_, failure) => {
    scene.insert('a1', { attempt_count: 1, last_attempt_time: 5 })
    class Cut extends MemoryBus {
      override async publish(): Promise<void> {
        throw failure
      }
    }
    await expect(requeueDocument(scene.source, new Cut(), collectionOf(archives), 'a1')).rejects.toBe(failure)
    expect(scene.row('a1')).toMatchObject({ attempt_count: 2, last_attempt_time: clock.now() })
  })
})

describe('a failure in the middle of a sweep', () => {
  it('is reported with what was done before it', async () => {
    scene.insert('due')
    scene.insert('over', { attempt_count: 3, last_attempt_time: 5 })
    const collections = [{ ...archives, archive: { into: 'nowhere', after: '1d' } } as const]
    const [report] = (await scene.sweeps({ collections }).sweep()).collections
    expect(report).toMatchObject({ requeued: 1, exhausted: 1, failure: { code: 'no_collection' } })
  })

  it('of the store that takes dead letters does not keep the next pages from being requeued', async () => {
    for (let n = 0; n < 3; n++) scene.insert(`over${n}`, { attempt_count: 3, last_attempt_time: n })
    for (let n = 0; n < 5; n++) scene.insert(`due${n}`, { attempt_count: 1, last_attempt_time: 10 + n })
    const store = new MemoryStore({ clock })
    store.enqueue = async () => {
      throw new Error('store down')
    }
    const [report] = (await scene.sweeps({ store, pageSize: 2 }).sweep()).collections
    expect(report).toMatchObject({ requeued: 5, exhausted: 0, failure: { message: 'store down' } })
    expect(await scene.taken()).toHaveLength(5)
    expect(scene.row('over0')).toMatchObject({ status: 'pending' })
  })
})

describe('a dead letter', () => {
  const letters = async (store: MemoryStore) =>
    (await store.list({ kind: 'document:archives', status: 'dead' }, { limit: 10 })).items
  let store: MemoryStore
  beforeEach(() => {
    store = new MemoryStore({ clock })
    scene.insert('over', { attempt_count: 3, last_attempt_time: 5 })
  })

  it('outlives a sweeper that died before it marked the document', async () => {
    const dying = await sourceWith({
      change: async () => {
        throw new Error('killed')
      },
    })
    await scene.sweeps({ store, source: dying }).sweep()
    expect(scene.row('over')).toMatchObject({ status: 'pending' })
    expect(await letters(store)).toHaveLength(1)
    await scene.sweeps({ store }).sweep()
    expect(scene.row('over')).toMatchObject({ status: 'failed_max_retries' })
    expect(await letters(store)).toHaveLength(1)
  })

  it('does not reset its document when another sweeper looks at it before that is marked', async () => {
    const slow = await sourceWith({
      change: async (...args) => {
        await scene.sweeps({ store }).sweep({})
        return scene.source.change(...args)
      },
    })
    await scene.sweeps({ store, source: slow }).sweep()
    await scene.sweeps({ store }).sweep()
    expect(scene.row('over')).toMatchObject({ status: 'failed_max_retries', attempt_count: 3 })
    expect(await letters(store)).toHaveLength(1)
  })

  it('that was redriven resets its document once, however many sweepers see it', async () => {
    await scene.sweeps({ store }).sweep()
    const [letter] = await letters(store)
    await store.redrive([letter?.id ?? ''], { who: 'ada' })
    const reports = await Promise.all([scene.sweeps({ store }).sweep(), scene.sweeps({ store }).sweep()])
    expect(reports.map(({ failure }) => failure)).toEqual([undefined, undefined])
    expect(scene.row('over')).toMatchObject({ status: 'pending', attempt_count: 1 })
    expect(await scene.taken()).toEqual(['over'])
    expect((await store.get(letter?.id ?? ''))?.status).toBe('succeeded')
  })

  it('waits while its collection is missing, which does not fail the sweep', async () => {
    await scene.sweeps({ store }).sweep()
    scene.db.exec('ALTER TABLE archives RENAME TO elsewhere')
    const source = await openSqliteSource(scene.db, { clock })
    expect(await scene.sweeps({ store, source }).sweep()).toMatchObject({
      failure: undefined,
      collections: [{ failure: { code: 'no_collection' } }],
    })
    expect(await letters(store)).toHaveLength(1)
  })
})

describe('the archive', () => {
  const archive = { into: 'graveyard', after: '30d' } as const
  const collections = [{ ...archives, archive }]
  const old = () => ({ status: 'failed_max_retries', attempt_count: 3, last_attempt_time: clock.now() - 31 * DAY })

  it('has each document once, after a sweep that failed between copy and delete too', async () => {
    for (const id of ['a1', 'a2', 'a3']) scene.insert(id, old())
    const dying = await sourceWith({
      remove: async () => {
        throw new Error('killed')
      },
    })
    const [died] = (await scene.sweeps({ collections, source: dying }).sweep()).collections
    expect(died).toMatchObject({ archived: 0, failed: 3, failure: { message: 'killed' } })
    const [report] = (await scene.sweeps({ collections }).sweep()).collections
    expect(report).toMatchObject({ archived: 3, failed: 0 })
    const ids = (table: string) => scene.db.prepare(`SELECT id FROM ${table} ORDER BY id`).pluck().all()
    expect([ids('archives'), ids('graveyard')]).toEqual([[], ['a1', 'a2', 'a3']])
  })

  it('gets the latest version of a document that was reset in between, and failed again', async () => {
    scene.insert('a1', old())
    const late = await sourceWith({
      remove: async (...args) => {
        scene.db.exec(`UPDATE archives SET status = 'pending', attempt_count = 0, last_attempt_time = NULL`)
        return scene.source.remove(...args)
      },
    })
    const [report] = (await scene.sweeps({ collections, source: late }).sweep()).collections
    expect(report).toMatchObject({ archived: 0 })
    expect(scene.row('a1')).toMatchObject({ status: 'pending' })
    scene.db.prepare(`UPDATE archives SET status = ?, attempt_count = 7, last_attempt_time = 1`).run(old().status)
    await scene.sweeps({ collections }).sweep()
    expect(scene.row('a1')).toBeUndefined()
    expect(scene.row('a1', 'graveyard')).toMatchObject({ attempt_count: 7 })
  })
})

it('a coverage with a wrong name opens nothing again', async () => {
  scene.insert('a1', { status: 'processed', attempt_count: 1, last_attempt_time: 5 })
  for (const wrong of [{ unless: 'nowhere' }, { unless: 'graveyard', reference: 'nothing' }]) {
    const coverage = [expecting({ from: 'archives', reference: 'id', ...wrong })]
    await scene.sweeps({ coverage }).sweep()
    expect(scene.events.at(-2)).toMatchObject({ type: 'coverage_checked', reopened: 0, failure: expect.any(Error) })
  }
  expect(scene.row('a1')).toMatchObject({ status: 'processed' })
})

it.each([
  ['blastRadius', { blastRadius: { share: 20 } }],
  ['blastRadius', { blastRadius: { first: -1 } }],
  ['startWithin', { startWithin: 0 }],
  ['name', { archive: { into: 'x"; DROP TABLE archives; --', after: '1d' } }],
  ['name', { priority: { field: 'x" DESC' } }],
])('a collection with a wrong %s is refused: %j', (option, wrong) => {
  expect(() => collectionOf({ ...fenced, ...wrong } as CollectionOptions)).toThrow(expect.objectContaining({ option }))
  const coverage = [expecting({ from: 'archives', unless: 'x"', reference: 'id' })]
  expect(() => scene.sweeps({ coverage })).toThrow(expect.objectContaining({ option: 'name' }))
})
