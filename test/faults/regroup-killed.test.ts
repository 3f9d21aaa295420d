import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { regroup } from '../../src/engine/internal.js'
import { PatternRules } from '../../src/fingerprint/internal.js'
import type { StoreContract } from '../../src/store/internal.js'
import { deadLetters } from '../dead-letters.js'
import { freshDatabase } from '../services/fresh-database.js'
import { Child } from './child-process.js'
import { openStore } from './open-store.js'
import { diceOf } from './seed.js'

const LETTERS = 600
const KILLS = 4
/** Names without digits or quotes: each is a group of its own until a rule merges them. */
const TENANTS = ['Blue Sky', 'Red Barn', 'Green Leaf', 'White Water', 'Black Rock', 'Grey Owl']
const PATTERN = 'tenant * is over its limit'
const dice = diceOf('kill -9 in the middle of a regroup')

async function sqliteUrl(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-regroup-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return `sqlite:${join(folder, 'redrive.db')}`
}

/** How often a group was seen goes to its heir at once, and its tasks page by page: only they are counted here. */
async function checkFigures(store: StoreContract): Promise<void> {
  const { items: tasks } = await store.list({}, { limit: 2 * LETTERS })
  for (const { id, retrying, dead } of (await store.groups.list({}, { limit: 100 })).items) {
    const members = tasks.filter(({ group }) => group === id)
    const died = members.filter(({ status }) => status === 'dead').length
    expect({ retrying, dead }, id).toEqual({ retrying: members.length - died, dead: died })
  }
}

it.each([
  ['sqlite', sqliteUrl],
  ['postgres', freshDatabase],
])(
  'on %s, the figures of groups equal a count over the tasks after a kill in the middle of a regroup',
  { timeout: 120_000 },
  async (_, urlOf) => {
    const url = await urlOf()
    const store = await openStore(url)
    onTestFinished(() => store.close())
    const ids = Array.from({ length: LETTERS }, (_, n) => `t${n}`)
    const messageOf = (n: number) => `tenant ${TENANTS[n % TENANTS.length]} is over its limit`
    await deadLetters(
      store,
      ids.map((id, n) => ({ id, message: messageOf(n) })),
    )
    expect((await store.groups.list({}, { limit: 100 })).items).toHaveLength(TENANTS.length)

    let redriven = 0
    for (let kill = 0; kill < KILLS; kill++) {
      const child = new Child('regroup-child.ts', { url, pattern: PATTERN })
      await child.ready
      // Meanwhile others move tasks within the same groups.
      redriven += (await store.redrive(ids.slice(kill * 10, kill * 10 + 10), { who: 'ann' })).length
      await new Promise(resolve => setTimeout(resolve, dice.between(20, 300)))
      await child.kill()
      // The server may still commit what the killed process has sent.
      await vi.waitFor(() => checkFigures(store), 10_000)
    }
    expect(redriven).toBe(10 * KILLS)
    await regroup(store, new PatternRules([{ pattern: PATTERN }]), new AbortController().signal)
    await checkFigures(store)
    const living = (await store.groups.list({}, { limit: 100 })).items.filter(({ dead }) => dead > 0)
    expect(living.map(({ retrying, dead }) => [retrying, dead])).toEqual([[redriven, LETTERS - redriven]])
  },
)
