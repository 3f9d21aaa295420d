import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openSqlite, type SqliteStore } from '../../../store/sqlite/internal.js'

const MAIN = new URL('../../main.ts', import.meta.url).pathname
const TSX = import.meta.resolve('tsx')
const LETTERS = 200

let folder: string
let store: SqliteStore
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
  store = await openSqlite(join(folder, 'redrive.db'))
  await store.enqueue(Array.from({ length: LETTERS }, () => ({ kind: 'k', payload: '{}' })))
  const { tasks } = await store.claim({
    worker: 'w',
    leaseMs: 1,
    rooms: [{ kinds: ['k'] }],
    limit: LETTERS,
    isIdle: false,
  })
  const outcome = { type: 'dead', reason: 'final_error' } as const
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome })))
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true })
})

/** Runs `redrive dlq redrive` in a process of its own. Stops it with a signal once it has said how far it is. */
async function redrive(argv: readonly string[], { stopWith }: { readonly stopWith?: NodeJS.Signals } = {}) {
  const command = ['dlq', 'redrive', '--store', 'sqlite:redrive.db', '--yes', ...argv]
  const child = spawn(process.execPath, ['--import', TSX, MAIN, ...command], { cwd: folder })
  let [out, err] = ['', '']
  child.stdout.on('data', data => (out += data))
  child.stderr.on('data', data => {
    const isUnderWay = err.includes('so far')
    err += data
    if (stopWith !== undefined && !isUnderWay && err.includes('so far')) child.kill(stopWith)
  })
  const code = await new Promise(resolve => child.on('close', resolve))
  return { code, out, err }
}

it.each(['SIGINT', 'SIGTERM'] as const)(
  'stopped by %s after a batch, it says how many it moved and ends with 3; called again it moves the rest',
  { timeout: 60_000 },
  async stopWith => {
    const argv = ['--kind', 'k', '--why', 'it is back', '--rate', '40/s']
    const startedAt = performance.now()
    const stopped = await redrive([...argv, '--output', 'json'], { stopWith })
    const tookMs = performance.now() - startedAt
    const { moved, isStopped } = JSON.parse(stopped.out)
    expect(stopped.err).toMatch(/^\d+ of 200 moved so far\.$/m)
    expect(stopped.err).toContain(`${stopWith}: stopping after this batch.`)
    expect(stopped.err).toMatch(new RegExp(`^${moved} moved\\.\nStopped by .+\\. The rest is unchanged\\.$`, 'm'))
    expect({ code: stopped.code, isStopped }).toEqual({ code: 3, isStopped: true })
    expect(moved).toBeGreaterThan(0)
    expect(moved, 'no more than the rate allows').toBeLessThanOrEqual((40 * tookMs) / 1000 + 4)
    expect(await store.count({})).toMatchObject({ waiting: moved, dead: LETTERS - moved })

    const rest = await redrive(['--kind', 'k'])
    expect(rest.code).toBe(0)
    const [first, second, third] = rest.err.split('\n')
    expect([first, second]).toEqual([`${LETTERS - moved} moved.`, 'No worker is running: they wait for one.'])
    expect(third).toMatch(/^For the outcome, run: redrive ops show --store \S+ op-[0-9a-f]{8}$/)
    expect(await store.count({})).toMatchObject({ waiting: LETTERS, dead: 0 })

    const who = userInfo().username
    const { items } = await store.operations.list({}, { limit: 10 })
    expect([...items].reverse()).toMatchObject([
      { by: { who, why: 'it is back' }, set: { filter: { kind: 'k' } }, moved, status: 'stopped' },
      { by: { who }, set: { filter: { kind: 'k' } }, moved: LETTERS - moved, status: 'settling' },
    ])
  },
)
