import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { runOperation } from '../../src/operate/index.js'
import type { StoreContract } from '../../src/store/internal.js'
import { claim, entry } from '../conformance/harness.js'
import { deadLetters } from '../dead-letters.js'
import { freshDatabase } from '../services/fresh-database.js'
import { Child } from './child-process.js'
import { openStore } from './open-store.js'
import { diceOf } from './seed.js'

const LETTERS = 1500
const LETTERS_WITH_STEPS = 600
const KILLS = 2
const LEASE_MS = 300
const dice = diceOf('kill -9 of the driver of an operation')

async function sqliteUrl(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-operation-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return `sqlite:${join(folder, 'redrive.db')}`
}

it.each([
  ['sqlite', sqliteUrl],
  ['postgres', freshDatabase],
])(
  'on %s, an edit goes on where its killed driver left it, and changes and moves each letter once',
  { timeout: 120_000 },
  async (_, urlOf) => {
    const url = await urlOf()
    const store = await openStore(url)
    onTestFinished(() => store.close())
    const ids = Array.from({ length: LETTERS }, (_, n) => `t${n}`)
    await deadLetters(
      store,
      ids.map(id => ({ id, payload: '{"region":"us"}' })),
    )
    const set = { filter: {}, until: await store.now() }
    const settings = { perSecond: 1000, patch: { region: 'eu' } }
    const { id } = await store.operations.create({ act: 'redrive', set, by: { who: 'ann' }, settings })

    let movedByKilled = 0
    for (let kill = 0; kill < KILLS; kill++) {
      const child = new Child('operation-child.ts', { url, id, leaseMs: LEASE_MS })
      await child.ready
      await new Promise(resolve => setTimeout(resolve, dice.between(0, 150)))
      await child.kill()
      movedByKilled = (await store.operations.get(id))?.moved ?? 0
    }
    expect(movedByKilled, 'the drivers that were killed had begun').toBeGreaterThan(0)
    // Two operators at once take over.
    const both = await Promise.all(['bob', 'eve'].map(driver => runOperation(store, id, { driver })))
    expect(both.map(({ status, moved }) => [status, moved])).toEqual([
      ['settling', LETTERS],
      ['settling', LETTERS],
    ])
    const ledgers = await store.ledgers(ids)
    const moves = ledgers.map(rows => rows.filter(({ outcome }) => outcome === 'redriven'))
    expect(new Set(moves.map(rows => rows.length))).toEqual(new Set([1]))
    expect(new Set(moves.map(([row]) => row?.before?.payload))).toEqual(new Set(['{"region":"us"}']))
    expect(new Set(await store.payloads(ids))).toEqual(new Set(['{"region":"eu"}']))
    expect(await store.count({})).toMatchObject({ waiting: LETTERS, dead: 0 })
  },
)

it.each([
  ['sqlite', sqliteUrl],
  ['postgres', freshDatabase],
])(
  'on %s, a redrive that forgets a step has forgotten it of those that it moved, wherever its driver was killed',
  {
    timeout: 240_000,
  },
  async (_, urlOf) => {
    const url = await urlOf()
    const store = await openStore(url)
    onTestFinished(() => store.close())
    const ids = await lettersWithSteps(store)
    const set = { filter: {}, until: await store.now() }
    const settings = { perSecond: 1000, fromStep: 'charge' }
    const { id } = await store.operations.create({ act: 'redrive', set, by: { who: 'ann' }, settings })
    const forgotten = async () => {
      const steps = await store.stepsOf(ids)
      return ids.filter((_, index) => steps[index]?.some(({ name, isDone }) => name === 'charge' && !isDone))
    }
    const moved = async () => {
      const ledgers = await store.ledgers(ids)
      return ids.filter((_, index) => ledgers[index]?.some(({ outcome }) => outcome === 'redriven'))
    }
    for (let kill = 0; kill < KILLS; kill++) {
      const child = new Child('operation-child.ts', { url, id, leaseMs: LEASE_MS })
      await child.ready
      await new Promise(resolve => setTimeout(resolve, dice.between(0, 100)))
      await child.kill()
      // A server ends the transaction that it was at, whoever is gone.
      await expect.poll(async () => [await forgotten()], { timeout: 30_000 }).toEqual([await moved()])
    }
    expect((await moved()).length, 'the drivers that were killed had begun').toBeGreaterThan(0)
    await runOperation(store, id, { driver: 'bob' })
    expect(await forgotten()).toEqual(ids)
    expect(await moved()).toEqual(ids)
    const results = new Set((await store.stepsOf(ids)).map(steps => JSON.stringify(steps.map(step => step.result))))
    expect([...results]).toEqual(['["1",null,null]'])
  },
)

/** Dead letters with three steps each. */
async function lettersWithSteps(store: StoreContract): Promise<string[]> {
  const ids = Array.from({ length: LETTERS_WITH_STEPS }, (_, n) => `s${n}`)
  await store.enqueue(ids.map(id => ({ id, kind: 'k', payload: '{}' })))
  const verdict = { class: 'final', code: 'E' } as const
  for (let left = LETTERS_WITH_STEPS; left > 0; ) {
    const { tasks } = await claim(store, { leaseMs: 60_000 })
    for (const name of ['create', 'charge', 'mail'])
      await Promise.all(
        tasks.map(({ id, token }) => store.recordStep({ id, token, name, isDone: true, result: '1', state: '{}' })),
      )
    const outcome = { type: 'dead', reason: 'final_error' } as const
    await store.settle(
      tasks.map(task => ({ id: task.id, token: task.token, outcome, attempt: entry(task, { verdict, error: 'x' }) })),
    )
    left -= tasks.length
  }
  return ids
}
