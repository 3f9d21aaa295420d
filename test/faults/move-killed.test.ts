import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { planMove } from '../../src/store/index.js'
import type { Movable } from '../../src/store/internal.js'
import { openSqlite } from '../../src/store/sqlite/internal.js'

import { checkInvariants } from '../conformance/invariants.js'
import { freshDatabase } from '../services/fresh-database.js'
import { atRest, observe } from './at-rest.js'
import { diceOf } from './seed.js'

const MAIN = new URL('../../src/cli/main.ts', import.meta.url).pathname
const TSX = import.meta.resolve('tsx')
const TASKS = 1500
const dice = diceOf('move killed')

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-move-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Tasks that wait, have succeeded, and are dead with a history. */
async function fill(store: Movable): Promise<void> {
  const tenant = (n: number) => (n % 3 === 0 ? '' : `tenant ${n % 7}`)
  await store.enqueue(Array.from({ length: TASKS }, (_, n) => ({ kind: 'k', key: tenant(n), payload: `{"n":${n}}` })))
  await store.audit.append(Array.from({ length: 500 }, (_, n) => `{"n":${n}}`))
  const { tasks } = await store.claim({
    worker: 'w',
    leaseMs: 60_000,
    rooms: [{ kinds: ['k'] }],
    limit: 500,
    isIdle: true,
  })
  const entry = { attempt: 1, startedAt: 1, endedAt: 2, worker: 'w' }
  const failure = { ...entry, verdict: { class: 'final', code: 'E' } as const, error: 'broken \0' }
  await store.settle(
    tasks.map(({ id, token }, n) =>
      n % 2 === 0
        ? { id, token, outcome: { type: 'succeeded' }, attempt: entry }
        : { id, token, outcome: { type: 'dead', reason: 'final_error' }, attempt: failure },
    ),
  )
  await store.leave('w')
}

function redriveMove(from: string, to: string) {
  const child = spawn(process.execPath, ['--import', TSX, MAIN, 'move', '--from', from, '--to', to], { cwd: folder })
  let words = ''
  child.stderr.on('data', data => (words += data))
  const ended = new Promise<string>(resolve => child.on('close', (code, signal) => resolve(`${code ?? signal}`)))
  return { child, ended, words: () => words }
}

/** A store, and its url. */
interface Place {
  readonly url: string
  readonly store: Movable
}

const STORES = {
  sqlite: async (name: string): Promise<Place> => {
    const store = await openSqlite(join(folder, `${name}.db`))
    return { url: `sqlite:${name}.db`, store }
  },
  postgres: async (_: string): Promise<Place> => {
    const url = await freshDatabase()
    return { url, store: await observe(url) }
  },
}

const tasksIn = async (store: Movable) => Object.values(await store.count({})).reduce((sum, count) => sum + count, 0)

/** Kills several moves into a new store, at random moments. Says how many of them were half-way by then. */
async function killedMoves(source: string, open: () => Promise<Place>) {
  const target = await open()
  let halfWay = 0
  for (const most of [dice.between(1, TASKS / 2), dice.between(TASKS / 2, TASKS)]) {
    const { child, ended } = redriveMove(source, target.url)
    let isOver = false
    void ended.then(() => (isOver = true))
    while (!isOver && (await tasksIn(target.store)) < most) await sleep(2)
    await sleep(dice.between(0, 20))
    child.kill('SIGKILL')
    await ended
    await atRest(target.url)
    const moved = await tasksIn(target.store)
    if (moved > 0 && moved < TASKS) halfWay++
    await checkInvariants(target.store)
  }
  return { target, halfWay }
}

it.each([
  ['sqlite', 'postgres'],
  ['postgres', 'sqlite'],
] as const)(
  'a move from %s to %s that is killed again and again goes on where it was, and ends complete and verified',
  { timeout: 600_000 },
  async (from, to) => {
    const source = await STORES[from]('source')
    await fill(source.store)
    let { target, halfWay } = await killedMoves(source.url, () => STORES[to]('target'))
    // On a busy machine kills may come too late: then once more, into another store.
    for (let tries = 2; halfWay < 1; tries++) {
      await target.store.close()
      ;({ target, halfWay } = await killedMoves(source.url, () => STORES[to](`target-${tries}`)))
    }

    const { ended, words } = redriveMove(source.url, target.url)
    expect(await ended, words()).toBe('0')
    expect(words()).toContain('Moved and verified')
    expect(await tasksIn(target.store)).toBe(TASKS)
    const plan = await planMove(source.store, target.store)
    expect(plan.map(({ section, source, before }) => [section, source - before])).toEqual(
      plan.map(({ section }) => [section, 0]),
    )
    await checkInvariants(target.store)
    await source.store.close()
    await target.store.close()
  },
)
