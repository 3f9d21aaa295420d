import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ClaimedTask, Settlement, StoreContract } from '../../src/store/internal.js'
import { openSqlite } from '../../src/store/sqlite/internal.js'
import { allTasks, checkInvariants } from '../conformance/invariants.js'
import { diceOf } from './seed.js'

const WAL_HEADER = 32
const FRAME = 24 + 4096
const CUTS = 150

const dice = diceOf('the WAL cut at many offsets')
let folder: string
/** The content of the store each time a call was acknowledged, and the length of the WAL at that moment. */
const moments: { readonly walBytes: number; readonly state: string }[] = []

/** Everything that the store knows of its tasks. */
async function stateOf(store: StoreContract): Promise<string> {
  const tasks = (await allTasks(store)).sort((a, b) => (a.id < b.id ? -1 : 1))
  const ledgers = await Promise.all(tasks.map(({ id }) => store.ledger(id)))
  return JSON.stringify({ tasks, ledgers, counts: await store.count({}) })
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-faults-'))
  const path = join(folder, 'redrive.db')
  const store = await openSqlite(path)
  const acknowledged = async () => {
    moments.push({
      walBytes: statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0,
      state: await stateOf(store),
    })
  }
  await acknowledged()
  const running: ClaimedTask[] = []
  for (let step = 0; step < 60; step++) {
    switch (dice.pick(['enqueue', 'claim', 'settle', 'heartbeat'] as const)) {
      case 'enqueue': {
        const payload = JSON.stringify('x'.repeat(dice.pick([1, 100, 6000])))
        await store.enqueue(Array.from({ length: dice.between(1, 8) }, () => ({ kind: 'k', payload })))
        break
      }
      case 'claim': {
        const request = {
          worker: 'w',
          leaseMs: 60_000,
          rooms: [{ kinds: ['k'] }],
          limit: dice.between(1, 6),
          isIdle: false,
        }
        running.push(...(await store.claim(request)).tasks)
        break
      }
      case 'settle':
        await store.settle(running.splice(0, dice.between(1, 5)).map(settlementOf))
        break
      case 'heartbeat':
        await store.heartbeat({ worker: 'w', leaseMs: 60_000 })
    }
    await acknowledged()
  }
  copyFileSync(path, join(folder, 'before.db'))
  copyFileSync(`${path}-wal`, join(folder, 'before.db-wal'))
  await store.close()
})
afterAll(() => rmSync(folder, { recursive: true }))

function settlementOf({ id, token, attempts }: ClaimedTask): Settlement {
  const attempt = { attempt: attempts + 1, startedAt: 1, endedAt: 2, worker: 'w' }
  const verdict = { class: 'retryable', code: 'c' } as const
  return dice.pick<Settlement>([
    { id, token, outcome: { type: 'succeeded', result: '1' }, attempt },
    {
      id,
      token,
      outcome: { type: 'retry', delayMs: 0, isBackoff: true },
      attempt: { ...attempt, verdict, error: 'e' },
    },
    { id, token, outcome: { type: 'dead', reason: 'final_error' }, attempt: { ...attempt, verdict, error: 'e' } },
  ])
}

/** Opens what a crash would have left: the database, and so much of its WAL. */
async function openWith(wal: Buffer): Promise<void> {
  const path = join(folder, 'cut.db')
  for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true })
  copyFileSync(join(folder, 'before.db'), path)
  writeFileSync(`${path}-wal`, wal)
  const store = await openSqlite(path)
  try {
    const found = await stateOf(store)
    await checkInvariants(store)
    expect(
      moments.map(({ state }) => state),
      'it is as it was at some acknowledged moment',
    ).toContain(found)
    const expected = moments.findLast(({ walBytes }) => walBytes <= wal.length)
    expect(JSON.parse(found), `cut at ${wal.length}`).toEqual(JSON.parse(expected?.state ?? ''))
    // And it goes on from there.
    await store.enqueue([{ id: 'next', kind: 'next', payload: '1' }])
    expect(await store.get('next')).toMatchObject({ status: 'waiting' })
    await checkInvariants(store)
  } finally {
    await store.close()
  }
}

describe('a WAL that was cut', { timeout: 300_000 }, () => {
  const walOf = () => readFileSync(join(folder, 'before.db-wal'))

  it('holds all of the moments that are compared', () => {
    const last = moments.at(-1)
    expect(last?.walBytes).toBe(walOf().length)
    expect(moments[0]?.walBytes).toBe(0)
    expect(new Set(moments.map(({ state }) => state)).size).toBeGreaterThan(20)
  })

  it('at the ends of frames and of transactions, and around them: what was acknowledged before is there', async () => {
    const wal = walOf()
    const ends = moments.map(({ walBytes }) => walBytes)
    const offsets = new Set([0, 1, WAL_HEADER - 1, WAL_HEADER, WAL_HEADER + 24, wal.length])
    while (offsets.size < CUTS / 2) {
      const end = dice.pick([dice.pick(ends), WAL_HEADER + FRAME * dice.between(0, (wal.length - WAL_HEADER) / FRAME)])
      offsets.add(Math.min(wal.length, Math.max(0, end + dice.pick([-1, 0, 1]))))
    }
    for (const offset of offsets) await openWith(wal.subarray(0, offset))
  })

  it('at any offset: what was acknowledged before is there, and never half a transaction', async () => {
    const wal = walOf()
    for (let cut = 0; cut < CUTS / 2; cut++) await openWith(wal.subarray(0, dice.between(0, wal.length)))
  })

  it('and whose last blocks never reached the disk: zeros or old data after the cut are not taken for new', async () => {
    const wal = walOf()
    const path = join(folder, 'torn.db')
    for (let cut = 0; cut < 20; cut++) {
      const offset = dice.between(WAL_HEADER, wal.length - 1)
      const torn = Buffer.from(wal)
      if (cut % 2 === 0) torn.fill(0, offset)
      else torn.copy(torn, offset, 0, wal.length - offset)
      for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true })
      copyFileSync(join(folder, 'before.db'), path)
      writeFileSync(`${path}-wal`, torn)
      const store = await openSqlite(path)
      const found = await stateOf(store)
      await checkInvariants(store)
      await store.close()
      const at = moments.findLastIndex(({ walBytes }) => walBytes <= offset)
      // The bytes may happen to be the same: then a later moment is there, but a whole one.
      expect(
        moments.slice(at).map(({ state }) => state),
        `torn at ${offset}`,
      ).toContain(found)
    }
  })
})
