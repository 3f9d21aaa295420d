import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { timetable } from '../../src/calendar/internal.js'
import { schedule } from '../../src/schedule/index.js'
import { declareTask } from '../../src/task/index.js'
import { freshDatabase } from '../services/fresh-database.js'
import { Child } from './child-process.js'
import { openStore } from './open-store.js'
import { diceOf } from './seed.js'

const SCHEDULES = 30
const KILLS = 6
const dice = diceOf('kill -9 of processes that fire schedules')

async function sqliteUrl(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-schedules-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return `sqlite:${join(folder, 'redrive.db')}`
}

it.each([
  ['sqlite', sqliteUrl],
  ['postgres', freshDatabase],
])(
  'on %s, each slot has one run and one record, however often processes that fire are killed',
  { timeout: 120_000 },
  async (_, urlOf) => {
    const url = await urlOf()
    const store = await openStore(url)
    onTestFinished(() => store.close())
    const task = declareTask<null>('tick')
    const options = { every: '1s', task, catchUp: 'all' } as const
    const specs = Array.from({ length: SCHEDULES }, (_, n) => schedule(`s${n}`, options).spec)
    await store.schedules.declare(specs, { worker: 'w' }, timetable)
    const { createdAt = 0 } = (await store.schedules.get('s0')) ?? {}

    const survivor = new Child('schedule-child.ts', { url })
    for (let kill = 0; kill < KILLS; kill++) {
      const child = new Child('schedule-child.ts', { url })
      await child.ready
      await new Promise(resolve => setTimeout(resolve, dice.between(0, 1000)))
      await child.kill()
    }
    await survivor.kill()
    // Nobody is left: the next process catches up.
    for (let hasMore = true; hasMore; ) ({ hasMore } = await store.schedules.fire(100, timetable))

    const runs: string[] = []
    for (const { name } of specs) {
      const cursor = (await store.schedules.get(name))?.cursor ?? 0
      const slots = await store.schedules.slots(name, 0, 1000)
      const first = Math.floor(createdAt / 1000) * 1000 + 1000
      expect(slots.map(({ slot }) => slot)).toEqual(
        Array.from({ length: (cursor - first) / 1000 + 1 }, (_, n) => first + n * 1000),
      )
      expect(new Set(slots.map(({ end }) => end))).toEqual(new Set(['ran']))
      runs.push(...slots.map(({ slot }) => `${name}@${new Date(slot).toISOString().replace('.000Z', 'Z')}`))
    }
    expect(runs.length).toBeGreaterThan(SCHEDULES)
    expect((await store.payloads(runs)).filter(payload => payload === undefined)).toEqual([])
    expect(await store.count({})).toMatchObject({ waiting: runs.length })
  },
)
