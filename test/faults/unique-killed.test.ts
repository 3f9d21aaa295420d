import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { contractOf } from '../../src/store/internal.js'
import { checkInvariants } from '../conformance/invariants.js'
import { freshDatabase } from '../services/fresh-database.js'
import { atRest, observe } from './at-rest.js'
import { Child } from './child-process.js'
import { diceOf } from './seed.js'

const KILLS = 10
const dice = diceOf('kill -9 of processes that replace tasks with unique keys')

async function sqliteUrl(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-unique-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return `sqlite:${join(folder, 'redrive.db')}`
}

it.each([
  ['sqlite', sqliteUrl],
  ['postgres', freshDatabase],
])(
  'on %s, a key has one task, and every task that waits for another one runs, however often processes are killed',
  { timeout: 120_000 },
  async (_, urlOf) => {
    const url = await urlOf()
    const store = contractOf(await observe(url))
    onTestFinished(() => store.close())
    const survivor = new Child('unique-child.ts', { url, worker: 'survivor' })
    for (let kill = 0; kill < KILLS; kill++) {
      const child = new Child('unique-child.ts', { url, worker: `w${kill}` })
      await child.ready
      await new Promise(resolve => setTimeout(resolve, dice.between(0, 200)))
      await child.kill()
    }
    await survivor.kill()
    await atRest(url)
    await checkInvariants(store)

    // Whatever waits for a twin runs once that has been rescued and has ended.
    const request = { worker: 'last', leaseMs: 60_000, rooms: [{ kinds: ['k'] }], limit: 100, isIdle: true }
    await expect
      .poll(
        async () => {
          await store.heartbeat({ worker: 'last', leaseMs: 60_000 })
          const { tasks, now } = await store.claim(request)
          const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'last' }
          const outcome = { type: 'succeeded' } as const
          await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
          const { waiting, running } = await store.count({})
          return waiting + running
        },
        { timeout: 60_000 },
      )
      .toBe(0)
    await checkInvariants(store)
    const unique = { key: 'k0', while: 'unfinished', conflict: 'keep' } as const
    expect(await store.enqueue([{ kind: 'k', payload: '1', unique }])).toMatchObject([{ outcome: 'created' }])
  },
)
