import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, onTestFinished } from 'vitest'
import { textOf } from '../../src/bus/index.js'
import { openNats } from '../../src/bus/nats/index.js'
import { type CollectionOptions, openSqliteSource, sweeper } from '../../src/document/index.js'
import { openSqlite } from '../../src/store/sqlite/index.js'
import { ownSpace } from '../services/own-space.js'
import { sharedBroker } from '../services/shared-broker.js'
import { ROOT } from '../subpaths.js'

const DOCUMENTS = 12
const QUEUES = { parsing: 'archive.ingested' }

/** A threshold of a millisecond and no backoff: every sweep finds what the one before it requeued. */
const archives: CollectionOptions = {
  name: 'archives',
  time: 'ms',
  stuckAfter: 1,
  policy: { attempts: 3, backoff: { kind: 'none' } },
  blastRadius: { isWarning: true },
  event: { type: 'archive.ingested', data: ({ id, attemptCount }) => ({ id, attemptCount }) },
}

/** A place where a sweeper is killed: before or after the n-th call of a verb. */
export type Step = readonly ['source' | 'bus' | 'store', string, number, 'before' | 'after']

/** A sweeper that goes on until it kills itself. */
const SWEEPER = (folder: string, bus: string, [part, verb, nth, when]: Step) => `
  import { openNats } from ${JSON.stringify(join(ROOT, 'src/bus/nats/index.ts'))}
  import { openSqliteSource, sweeper } from ${JSON.stringify(join(ROOT, 'src/document/index.ts'))}
  import { openSqlite } from ${JSON.stringify(join(ROOT, 'src/store/sqlite/index.ts'))}
  const parts = {
    source: await openSqliteSource(${JSON.stringify(join(folder, 'app.db'))}),
    bus: await openNats(${JSON.stringify(bus)}.split('?')[0], { prefix: new URL(${JSON.stringify(bus)}).searchParams.get('prefix') }),
    store: await openSqlite(${JSON.stringify(join(folder, 'store.db'))}),
  }
  const die = () => process.kill(process.pid, 'SIGKILL')
  const verb = parts.${part}.${verb}.bind(parts.${part})
  let calls = 0
  parts.${part}.${verb} = async (...args) => {
    const isLast = ++calls === ${nth}
    if (isLast && ${when === 'before'}) die()
    const result = await verb(...args)
    if (isLast) die()
    return result
  }
  const event = { type: 'archive.ingested', data: ({ id, attemptCount }) => ({ id, attemptCount }) }
  const archives = ${JSON.stringify({ ...archives, event: undefined })}
  const sweeps = sweeper({ ...parts, collections: [{ ...archives, event }], pageSize: 4, interval: 1 })
  sweeps.start()
`

/**
 * Kills a sweeper at a step, lets two others finish its work, and checks that each attempt was counted once and published at
 * most once, and that each document has a dead letter in the end.
 */
export async function survive(step: Step): Promise<void> {
  const busUrl = await ownSpace('nats', await sharedBroker('nats'))
  const folder = mkdtempSync(join(tmpdir(), 'redrive-killed-'))
  const db = new Database(join(folder, 'app.db'))
  db.pragma('journal_mode = WAL')
  db.exec('CREATE TABLE archives (id TEXT PRIMARY KEY, status TEXT, attemptCount INTEGER, lastAttemptTime INTEGER)')
  for (let n = 0; n < DOCUMENTS; n++) db.prepare(`INSERT INTO archives VALUES (?, 'pending', 0, NULL)`).run(`a${n}`)
  const address = new URL(busUrl)
  const bus = await openNats(`${address.protocol}//${address.host}`, {
    prefix: address.searchParams.get('prefix') ?? undefined,
  })
  await bus.declare(QUEUES)
  const store = await openSqlite(join(folder, 'store.db'))
  onTestFinished(async () => {
    await bus.close()
    await store.close()
    db.close()
    rmSync(folder, { recursive: true })
  })
  writeFileSync(join(folder, 'sweep.mts'), SWEEPER(folder, busUrl, step))
  const tsx = join(ROOT, 'node_modules/tsx/dist/esm/index.mjs')
  const child = spawn(process.execPath, ['--import', tsx, join(folder, 'sweep.mts')], {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, TSX_TSCONFIG_PATH: join(ROOT, 'tsconfig.json') },
  })
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])

  // Two others, at once, finish the work.
  const open = db.prepare(`SELECT count(*) FROM archives WHERE status <> 'failed_max_retries'`).pluck()
  const source = await openSqliteSource(join(folder, 'app.db'))
  const others = [source, await openSqliteSource(join(folder, 'app.db'))]
  while (open.get() !== 0) {
    const sweeps = others.map(other => sweeper({ source: other, bus, store, collections: [archives], pageSize: 5 }))
    const reports = await Promise.all(sweeps.map(each => each.sweep()))
    for (const { failure, collections } of reports)
      expect([failure, collections[0]?.failure]).toEqual([undefined, undefined])
  }
  for (const other of others) await other.close()

  const label = step.join(' ')
  expect(db.prepare('SELECT DISTINCT attemptCount FROM archives').pluck().all(), label).toEqual([3])
  const letters = await store.list({ kind: 'document:archives', status: 'dead' }, { limit: 100 })
  const failed = letters.items.map(({ payload }) => JSON.parse(payload).id).sort()
  expect(failed, label).toEqual(db.prepare('SELECT id FROM archives ORDER BY id').pluck().all())

  const events: string[] = []
  const [queue] = await bus.status(QUEUES)
  const consumer = await bus.consume('parsing', delivery => {
    const { id, attemptCount } = JSON.parse(textOf(delivery)).data
    events.push(`${id} ${attemptCount}`)
    delivery.ack()
  })
  await expect.poll(() => events.length, { timeout: 120_000 }).toBe(queue?.messages)
  await consumer.stop()
  // No attempt was published twice. A sweeper that died after its update has published a page too few.
  expect(new Set(events).size, label).toBe(events.length)
  expect(events.length, label).toBeGreaterThanOrEqual(3 * DOCUMENTS - 4)
  expect(events.length, label).toBeLessThanOrEqual(3 * DOCUMENTS)
}
