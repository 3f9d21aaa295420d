import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, it, onTestFinished } from 'vitest'
import { MemoryBus } from '../../src/bus/index.js'
import { type CollectionOptions, openSqliteSource, sweeper } from '../../src/document/index.js'
import { fakeClock } from '../../src/testing/index.js'
import { ROOT } from '../subpaths.js'

/** A sweeper whose broker never answers: it has updated its documents, and waits for the confirms. */
const SWEEPER = (file: string) => `
  import { MemoryBus } from ${JSON.stringify(join(ROOT, 'src/bus/index.ts'))}
  import { openSqliteSource, sweeper } from ${JSON.stringify(join(ROOT, 'src/document/index.ts'))}
  class Silent extends MemoryBus {
    publish() {
      process.stdout.write('published\\n')
      return new Promise(() => setInterval(() => {}, 1000))
    }
  }
  const event = { type: 'archive.ingested', data: () => ({}) }
  const source = await openSqliteSource(${JSON.stringify(file)})
  await sweeper({ source, bus: new Silent(), collections: [{ name: 'archives', time: 'ms', event }] }).sweep()
`

it('documents of a sweeper that was killed between update and publish are found again when their time comes', {
  timeout: 60_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-killed-'))
  const file = join(folder, 'app.db')
  const db = new Database(file)
  onTestFinished(() => {
    db.close()
    rmSync(folder, { recursive: true })
  })
  db.exec('CREATE TABLE archives (id TEXT PRIMARY KEY, status TEXT, attemptCount INTEGER, lastAttemptTime INTEGER)')
  db.exec(`INSERT INTO archives VALUES ('a1', 'pending', 0, NULL), ('a2', 'processing', 1, NULL)`)
  writeFileSync(join(folder, 'sweep.mts'), SWEEPER(file))
  const tsx = join(ROOT, 'node_modules/tsx/dist/esm/index.mjs')
  const child = spawn(process.execPath, ['--import', tsx, join(folder, 'sweep.mts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TSX_TSCONFIG_PATH: join(ROOT, 'tsconfig.json') },
  })
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
  const counts = db.prepare('SELECT attemptCount FROM archives ORDER BY id').pluck()
  expect(counts.all()).toEqual([1, 2])

  const clock = fakeClock(Date.now())
  const bus = new MemoryBus()
  await bus.declare({ parsing: 'archive.ingested' })
  const event = { type: 'archive.ingested', data: () => ({}) }
  const archives: CollectionOptions = { name: 'archives', time: 'ms', event }
  const source = await openSqliteSource(db, { clock })
  const sweep = () => sweeper({ source, bus, collections: [archives], clock }).sweep()
  expect((await sweep()).collections).toMatchObject([{ stuck: 0 }])
  await clock.advance('25h')
  expect((await sweep()).collections).toMatchObject([{ stuck: 2, requeued: 2 }])
  expect(counts.all()).toEqual([2, 3])
})
