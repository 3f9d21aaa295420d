import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { timetable } from '../../src/calendar/internal.js'
import { schedule } from '../../src/schedule/index.js'
import { contractOf, type StoreContract } from '../../src/store/internal.js'
import { declareTask } from '../../src/task/index.js'
import { checkInvariants } from '../conformance/invariants.js'
import { freshDatabase } from '../services/fresh-database.js'
import { atRest, observe } from './at-rest.js'
import { Child } from './child-process.js'

const MOST = 200

async function sqliteUrl(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-statements-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return `sqlite:${join(folder, 'redrive.db')}`
}

interface Killing {
  readonly url: string
  readonly options: (turn: number) => object
  readonly before: (turn: number) => Promise<void>
  readonly after: (turn: number) => Promise<void>
}

/** Lets processes do the same, each of which dies one statement later, until one has done it. Returns how many died. */
async function killAtEach({ url, options, before, after }: Killing, isSent: boolean, first: number): Promise<number> {
  for (let statement = 1; statement <= MOST; statement++) {
    const turn = first + statement
    await before(turn)
    const child = new Child('statement-child.ts', { url, statement, isSent, ...options(turn) })
    const { code, signal } = await child.ended
    await atRest(url)
    await after(turn)
    if (signal === null) {
      expect(code, child.errors).toBe(0)
      return statement - 1
    }
  }
  throw new Error(`${MOST} statements are too many.`)
}

async function killAtAll(killing: Killing): Promise<void> {
  const died = await killAtEach(killing, false, 0)
  expect(died).toBeGreaterThan(0)
  // A server carries out what it has been sent.
  if (killing.url.startsWith('postgres')) await killAtEach(killing, true, 1000)
}

async function opened(urlOf: () => Promise<string>): Promise<{ readonly url: string; readonly store: StoreContract }> {
  const url = await urlOf()
  const store = contractOf(await observe(url))
  onTestFinished(() => store.close())
  return { url, store }
}

const STORES = [
  ['sqlite', sqliteUrl],
  ['postgres', freshDatabase],
] as const

it.each(STORES)(
  'on %s, a process that is killed at any statement of a unique replace has replaced the task, or has changed nothing',
  { timeout: 300_000 },
  async (_, urlOf) => {
    const { url, store } = await opened(urlOf)
    const outcomes = new Set<string>()
    await killAtAll({
      url,
      options: turn => ({ act: 'replace', id: `new-${turn}`, key: `k${turn}` }),
      before: async turn => {
        const unique = { key: `k${turn}`, while: 'unfinished', conflict: 'keep' } as const
        await store.enqueue([{ id: `old-${turn}`, kind: 'k', payload: '1', unique }])
      },
      after: async turn => {
        const [before, after] = await Promise.all([store.get(`old-${turn}`), store.get(`new-${turn}`)])
        outcomes.add(`${before?.status} ${after?.status}`)
        const unique = { key: `k${turn}`, while: 'unfinished', conflict: 'keep' } as const
        const standing = after === undefined ? `old-${turn}` : `new-${turn}`
        const again = await store.enqueue([{ kind: 'k', payload: '1', unique }])
        expect(again).toMatchObject([{ id: standing, outcome: 'kept', status: 'waiting' }])
      },
    })
    expect(outcomes).toEqual(new Set(['waiting undefined', 'cancelled waiting']))
    await checkInvariants(store)
  },
)

it.each(STORES)(
  'on %s, a process that is killed at any statement of firing a schedule has fired it, or has changed nothing',
  { timeout: 300_000 },
  async (_, urlOf) => {
    const { url, store } = await opened(urlOf)
    const options = { every: '1s', task: declareTask<null>('tick'), catchUp: 'all' } as const
    await store.schedules.declare([schedule('s', options).spec], { worker: 'w' }, timetable)
    let cursor = (await store.schedules.get('s'))?.cursor ?? 0
    const moved = new Set<boolean>()
    await killAtAll({
      url,
      options: () => ({ act: 'fire' }),
      before: async () => {
        while ((await store.now()) < cursor + 1000) await sleep(20)
      },
      after: async () => {
        const now = (await store.schedules.get('s'))?.cursor ?? 0
        moved.add(now > cursor)
        cursor = now
        const slots = await store.schedules.slots('s', 0, 1000)
        const runs = slots.map(({ slot }) => `s@${new Date(slot).toISOString().replace('.000Z', 'Z')}`)
        expect(new Set(runs).size).toBe(runs.length)
        if (slots.length > 0) expect(slots.at(-1)?.slot).toBe(cursor)
        expect((await store.payloads(runs)).filter(payload => payload === undefined)).toEqual([])
        expect(await store.count({})).toMatchObject({ waiting: runs.length })
      },
    })
    expect(moved).toEqual(new Set([false, true]))
    await checkInvariants(store)
  },
)
