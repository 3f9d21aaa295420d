import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openSqlite } from './index.js'

const PROCESSES = 4
const TASKS = 2000

/** Claims and settles until nothing is left, and tells what it did. */
const WORKER = /* js */ `
  import { openSqlite } from ${JSON.stringify(new URL('index.ts', import.meta.url).href)}
  const store = await openSqlite(process.argv[1])
  const worker = 'w' + process.pid
  const done = []
  for (;;) {
    const { tasks } = await store.claim({ worker, leaseMs: 60_000, rooms: [{ kinds: ['k'] }], limit: 20, isIdle: true })
    if (tasks.length === 0) break
    await store.settle(tasks.map(({ id, token }) => ({
      id, token, outcome: { type: 'succeeded' }, attempt: { attempt: 1, startedAt: 1, endedAt: 2, worker },
    })))
    done.push(...tasks.map(({ id }) => id))
  }
  await store.close()
  console.log(JSON.stringify(done))
`

function runWorker(path: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', WORKER, path])
    let out = ''
    let errors = ''
    child.stdout.on('data', data => (out += data))
    child.stderr.on('data', data => (errors += data))
    child.on('close', code => (code === 0 ? resolve(JSON.parse(out)) : reject(new Error(errors))))
  })
}

describe('many processes on one file', { timeout: 60_000 }, () => {
  it('share the work: each task is done once, and nothing is lost', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'redrive-'))
    const path = join(folder, 'redrive.db')
    const store = await openSqlite(path)
    const added = await store.enqueue(
      Array.from({ length: TASKS }, (_, index) => ({ kind: 'k', key: `t${index % 3}`, payload: '{}' })),
    )
    const done = await Promise.all(Array.from({ length: PROCESSES }, () => runWorker(path)))
    expect(done.flat().sort()).toEqual(added.map(({ id }) => id).sort())
    expect(await store.count({})).toMatchObject({ waiting: 0, running: 0, succeeded: TASKS })
    expect((await store.lanes()).map(({ running }) => running)).toEqual([0, 0, 0])
    await store.close()
    rmSync(folder, { recursive: true })
  })
})
