import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import Database from 'better-sqlite3'
import { Registry } from 'prom-client'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { findProgram } from '../../test/services/programs.js'
import { startPushgateway } from '../../test/services/pushgateway.js'
import { BusUnavailableError, MemoryBus } from '../bus/index.js'
import { type CollectionOptions, openSqliteSource, type SweeperOptions, sweeper } from '../document/index.js'
import { presets } from '../presets/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { documentMetrics, pushGateway } from './index.js'

let clock: FakeClock
let db: Database.Database
let bus: MemoryBus
let registry: Registry
beforeEach(async () => {
  clock = fakeClock(Date.UTC(2026, 0, 10))
  db = new Database(':memory:')
  db.exec('CREATE TABLE archives (id TEXT PRIMARY KEY, status TEXT, attemptCount INTEGER, lastAttemptTime INTEGER)')
  bus = new MemoryBus()
  await bus.declare({ parsing: 'archive.ingested' })
  registry = new Registry()
})

const archives: CollectionOptions = {
  name: 'archives',
  time: 'ms',
  event: { type: 'archive.ingested', data: ({ id }) => ({ id }) },
}
const metrics = () =>
  documentMetrics({ registry, collections: ['archives'], names: presets.documents.documentMetricNames })

async function sweep(options: Partial<SweeperOptions> = {}) {
  const source = await openSqliteSource(db, { clock })
  return sweeper({ source, bus, collections: [archives], clock, ...options }).sweep()
}

async function scrape(): Promise<string[]> {
  const lines = (await registry.metrics()).split('\n')
  return lines.filter(line => /^[^#]/.test(line) && !/_bucket/.test(line))
}

describe('the metrics of a sweep', () => {
  it('begin at 0, all of them', async () => {
    await metrics()
    expect(await scrape()).toEqual([
      'retry_job_documents_requeued_total{collection="archives"} 0',
      'retry_job_documents_skipped_backoff_total{collection="archives"} 0',
      'retry_job_documents_max_retries_exceeded_total{collection="archives"} 0',
      'redrive_documents_superseded_total{collection="archives"} 0',
      'retry_job_runs_total{status="success"} 0',
      'retry_job_runs_total{status="failure"} 0',
      'retry_job_errors_total{error_type="publish_error"} 0',
      'retry_job_errors_total{error_type="collection_error"} 0',
      'retry_job_errors_total{error_type="document_error"} 0',
      'retry_job_errors_total{error_type="job_error"} 0',
      'retry_job_stuck_documents{collection="archives"} 0',
      'retry_job_failed_documents{collection="archives"} 0',
      'redrive_documents_oldest_stuck_seconds{collection="archives"} 0',
      'retry_job_duration_seconds_sum 0',
      'retry_job_duration_seconds_count 0',
    ])
  })

  it('have the names, types and labels of the source system', async () => {
    await metrics()
    const given = (await registry.getMetricsAsJSON()).filter(({ name }) => name.startsWith('retry_job_'))
    const labels = (name: string) => {
      const metric = registry.getSingleMetric(name)
      return metric !== undefined && 'labelNames' in metric ? metric.labelNames : undefined
    }
    expect(Object.fromEntries(given.map(({ name, type }) => [name, [type, labels(name)]]))).toEqual({
      retry_job_documents_requeued_total: ['counter', ['collection']],
      retry_job_documents_skipped_backoff_total: ['counter', ['collection']],
      retry_job_documents_max_retries_exceeded_total: ['counter', ['collection']],
      retry_job_runs_total: ['counter', ['status']],
      retry_job_errors_total: ['counter', ['error_type']],
      retry_job_stuck_documents: ['gauge', ['collection']],
      retry_job_failed_documents: ['gauge', ['collection']],
      retry_job_duration_seconds: ['histogram', []],
    })
  })

  it('do not count a dry run', async () => {
    db.exec(`INSERT INTO archives VALUES ('a1', 'pending', 0, NULL)`)
    const source = await openSqliteSource(db, { clock })
    await sweeper({ source, bus, collections: [archives], clock, sink: await metrics() }).sweep({ dryRun: true })
    const lines = await scrape()
    expect(lines).toContain('retry_job_stuck_documents{collection="archives"} 1')
    expect(lines).toContain('retry_job_runs_total{status="success"} 0')
    expect(lines).toContain('retry_job_documents_requeued_total{collection="archives"} 0')
  })

  it('keep what was counted before a collection failed', async () => {
    db.exec(`INSERT INTO archives VALUES ('over', 'pending', 3, 0)`)
    const archive = { into: 'nowhere', after: 0 } as const
    await sweep({ sink: await metrics(), collections: [{ ...archives, archive }] })
    const lines = await scrape()
    expect(lines).toContain('retry_job_documents_max_retries_exceeded_total{collection="archives"} 1')
    expect(lines).toContain('retry_job_errors_total{error_type="collection_error"} 1')
  })

  it('tell what was requeued, skipped and marked, and how long it took', async () => {
    const now = clock.now()
    const insert = db.prepare(`INSERT INTO archives VALUES (?, 'pending', ?, ?)`)
    insert.run('new', 0, null)
    insert.run('due', 1, now - 10 * 60_000)
    insert.run('waits', 2, now - 5 * 60_000)
    insert.run('over', 3, now - 60 * 60_000)
    await sweep({ sink: await metrics(), stuckAfter: 0 })
    const lines = await scrape()
    expect(lines).toEqual(
      expect.arrayContaining([
        'retry_job_documents_requeued_total{collection="archives"} 2',
        'retry_job_documents_skipped_backoff_total{collection="archives"} 1',
        'retry_job_documents_max_retries_exceeded_total{collection="archives"} 1',
        'retry_job_runs_total{status="success"} 1',
        'retry_job_stuck_documents{collection="archives"} 4',
        'retry_job_failed_documents{collection="archives"} 1',
        'redrive_documents_oldest_stuck_seconds{collection="archives"} 3600',
        'retry_job_duration_seconds_count 1',
      ]),
    )
  })

  it('count errors by their type, and keep a gauge whose collection cannot be read', async () => {
    const sink = await metrics()
    db.exec(`INSERT INTO archives VALUES ('a1', 'failed_max_retries', 3, 0)`)
    await sweep({ sink })
    db.exec('ALTER TABLE archives RENAME TO elsewhere')
    await sweep({ sink })
    const noBus = () => Promise.reject(new BusUnavailableError('RabbitMQ'))
    await sweep({ sink, bus: noBus })
    expect(await scrape()).toEqual(
      expect.arrayContaining([
        'retry_job_failed_documents{collection="archives"} 1',
        'retry_job_errors_total{error_type="collection_error"} 1',
        'retry_job_errors_total{error_type="job_error"} 1',
        'retry_job_runs_total{status="success"} 2',
        'retry_job_runs_total{status="failure"} 1',
        'retry_job_duration_seconds_count 3',
      ]),
    )
  })

  it('have names of our own unless others are given, and promtool finds nothing wrong with either', async () => {
    const program = await findProgram({
      title: 'Prometheus',
      file: 'promtool',
      places: [],
      debianPackage: 'prometheus',
    })
    for (const names of [undefined, presets.documents.documentMetricNames]) {
      registry = new Registry()
      await sweep({ sink: await documentMetrics({ registry, collections: ['archives'], names }) })
      const text = await registry.metrics()
      const requeued = names?.requeued ?? 'redrive_documents_requeued_total'
      expect(text).toContain(`${requeued}{collection="archives"} 0`)
      const promtool = promisify(execFile)(program, ['check', 'metrics'])
      promtool.child.stdin?.end(text)
      expect((await promtool).stderr).toBe('')
    }
  })
})

describe('a Pushgateway', () => {
  it('holds what was pushed, and gives counters back to the next process', { timeout: 300_000 }, async () => {
    const gateway = await startPushgateway()
    onTestFinished(() => gateway.close())
    const pushed = async () => {
      const text = await (await fetch(`${gateway.url}/metrics`)).text()
      return text.split('\n').find(line => line.startsWith('retry_job_documents_requeued_total'))
    }
    for (const [count, total] of [
      [5, 5],
      [7, 12],
    ] as const) {
      // Each round is a process of its own, which begins at 0.
      registry = new Registry()
      const sink = await metrics()
      const push = await pushGateway({ url: gateway.url, registry })
      await push.restore()
      db.exec('DELETE FROM archives')
      for (let n = 0; n < count; n++) db.exec(`INSERT INTO archives VALUES ('a${n}', 'pending', 0, NULL)`)
      await sweep({ sink })
      await push.push()
      expect(await pushed()).toMatch(new RegExp(`collection="archives".* ${total}$`))
    }
    // A process that cannot read the collection pushes its last values, not 0.
    db.exec('DROP TABLE archives')
    registry = new Registry()
    const sink = await metrics()
    const push = await pushGateway({ url: gateway.url, registry })
    await push.restore()
    await sweep({ sink })
    await push.push()
    expect(await scrape()).toContain('retry_job_stuck_documents{collection="archives"} 7')
    expect(await scrape()).toContain('retry_job_errors_total{error_type="collection_error"} 1')
  })

  it('keeps the metrics of each instance of a job', { timeout: 300_000 }, async () => {
    const gateway = await startPushgateway()
    onTestFinished(() => gateway.close())
    const swept = async (instance: string | undefined, count: number) => {
      registry = new Registry()
      const sink = await metrics()
      const push = await pushGateway({ url: gateway.url, registry, instance })
      await push.restore()
      db.exec('DELETE FROM archives')
      for (let n = 0; n < count; n++) db.exec(`INSERT INTO archives VALUES ('a${n}', 'pending', 0, NULL)`)
      await sweep({ sink })
      await push.push()
    }
    await swept('a/1', 1)
    await swept('b', 2)
    await swept(undefined, 3)
    await swept('a/1', 4)
    const text = await (await fetch(`${gateway.url}/metrics`)).text()
    const lines = text.split('\n').filter(line => line.startsWith('retry_job_documents_requeued_total'))
    const total = (instance: string) =>
      lines
        .find(line => line.includes(`instance="${instance}"`))
        ?.split(' ')
        .at(-1)
    expect([total('a/1'), total('b'), total('')]).toEqual(['5', '2', '3'])
  })

  it('that is down is an error, and so is an address that is none', async () => {
    const push = await pushGateway({ url: 'http://app:pw@127.0.0.1:9', registry })
    await expect(push.push()).rejects.toThrow('fetch failed')
    await expect(pushGateway({ url: 'pushgateway' })).rejects.toMatchObject({ option: 'url' })
  })
})
