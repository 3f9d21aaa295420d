import type { LedgerRow } from 'redrive/store'
import { expect } from 'vitest'
import { allTasks, checkInvariants } from '../../src/testing/store-conformance/invariants.js'
import type { Scene } from './scene.js'

/** Kinds whose handlers fail only if the store does, or if they are told to. */
const WRITERS = new Set(['write', 'complete'])
const ENDED = ['succeeded', 'skipped', 'dead', 'cancelled']

/**
 * What must hold after any fault: the queue drains by itself; every accepted task has ended in exactly one state; its
 * ledger has no gap and accounts for every start of its handler; no attempt goes beyond the policy; each write made
 * through `once`, or in the transaction that completed its task, exists once.
 */
export async function expectAllAccountedFor(scene: Scene): Promise<void> {
  await scene.drained()
  const { store, accepted } = scene
  await checkInvariants(store)
  const tasks = new Map((await allTasks(store)).map(task => [task.id, task]))
  const missing = [...accepted.keys()].filter(id => !tasks.has(id))
  expect(missing, 'accepted, and lost').toEqual([])

  const starts = new Map<string, number>()
  for (const { id } of scene.starts()) starts.set(id, (starts.get(id) ?? 0) + 1)
  const effects = await scene.effects()
  for (const [id, attempts] of accepted) {
    const task = tasks.get(id)
    const ledger = await store.ledger(id)
    const about = `${task?.kind} ${id}: ${JSON.stringify(ledger.map(({ attempt, outcome }) => [attempt, outcome]))}`
    expect(ENDED, about).toContain(task?.status)
    expect(sequencesOf(ledger), `${about}: a gap in the ledger`).toEqual(ledger.map((_, index) => index + 1))

    const made = ledger.filter(({ outcome }) => outcome !== 'deferred' && outcome !== 'later')
    expect(numbersOf(made), `${about}: attempts are not numbered from 1 to ${made.length}`).toEqual(
      made.map((_, index) => index + 1),
    )
    expect(made.length, `${about}: more attempts than the policy's ${attempts}`).toBeLessThanOrEqual(attempts)
    expect(starts.get(id) ?? 0, `${about}: a start that is not on record`).toBeLessThanOrEqual(ledger.length)
    expect(ledger.at(-1)?.outcome, about).toBe(isLost(ledger) && task?.status === 'dead' ? 'lost' : task?.status)
    if (task?.status === 'dead' && task.reason === 'attempts_exhausted') {
      expect(made.length, `${about}: given up too early`).toBe(attempts)
    }
    if (task?.status === 'dead' && WRITERS.has(task.kind))
      expect(task.reason, `${about}: ${task.errorMessage}`).toBe('attempts_exhausted')
    if (task?.kind === 'write' && task.status === 'succeeded') expect(effects.get(id), `${about}: its write`).toBe(1)
    if (task?.kind === 'complete')
      expect(effects.get(id) ?? 0, `${about}: its write`).toBe(task.status === 'succeeded' ? 1 : 0)
  }
  expect([...effects].filter(([id, times]) => times !== 1 && tasks.get(id)?.kind !== 'zombie')).toEqual([])
}

const sequencesOf = (ledger: readonly LedgerRow[]) => ledger.map(({ sequence }) => sequence)
const numbersOf = (ledger: readonly LedgerRow[]) => ledger.map(({ attempt }) => attempt)
/** The last attempt was lost: what was decided then is told to that row. */
const isLost = (ledger: readonly LedgerRow[]) => ledger.at(-1)?.outcome === 'lost'
