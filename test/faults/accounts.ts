import type { LedgerRow } from 'redrive/store'
import { expect } from 'vitest'
import { allTasks, checkInvariants } from '../conformance/invariants.js'
import type { Scene } from './scene.js'

/** Kinds whose handlers fail only if the store does, or if they are told to. */
const WRITERS = new Set(['write', 'complete'])
const ENDED = ['succeeded', 'skipped', 'dead', 'cancelled']

/** How many workers may die of a task: the default of a policy. */
const LOSSES = 3

/**
 * Asserts what must hold after any fault: the queue drains by itself; every accepted task has ended in exactly one state;
 * its ledger has no gap and accounts for every start of its handler; neither attempts nor losses go beyond the policy; each
 * write made through `once`, or in the transaction that completed its task, exists once.
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
    const lost = made.filter(({ outcome }) => outcome === 'lost').length
    expect(numbersOf(made), `${about}: the numbers of attempts`).toEqual(expectedNumbers(made))
    expect(made.length - lost, `${about}: more attempts than the policy's ${attempts}`).toBeLessThanOrEqual(attempts)
    expect(lost, `${about}: more losses than the policy's`).toBeLessThanOrEqual(LOSSES)
    expect(starts.get(id) ?? 0, `${about}: a start that is not on record`).toBeLessThanOrEqual(ledger.length)
    expect(ledger.at(-1)?.outcome, about).toBe(isLost(ledger) && task?.status === 'dead' ? 'lost' : task?.status)
    if (task?.reason === 'attempts_exhausted') expect(made.length - lost, `${about}: given up too early`).toBe(attempts)
    if (task?.reason === 'losses_exhausted') expect(lost, `${about}: given up too early`).toBe(LOSSES)
    if (task?.status === 'dead' && WRITERS.has(task.kind))
      expect(['attempts_exhausted', 'losses_exhausted'], `${about}: ${task.errorMessage}`).toContain(task.reason)
    if (task?.kind === 'write' && task.status === 'succeeded') expect(effects.get(id), `${about}: its write`).toBe(1)
    if (task?.kind === 'complete')
      expect(effects.get(id) ?? 0, `${about}: its write`).toBe(task.status === 'succeeded' ? 1 : 0)
  }
  expect([...effects].filter(([id, times]) => times !== 1 && tasks.get(id)?.kind !== 'zombie')).toEqual([])
}

const sequencesOf = (ledger: readonly LedgerRow[]) => ledger.map(({ sequence }) => sequence)
const numbersOf = (ledger: readonly LedgerRow[]) => ledger.map(({ attempt }) => attempt)
/** Attempts count from 1. A lost attempt has the number of the attempt that follows it. */
function expectedNumbers(made: readonly LedgerRow[]): number[] {
  let attempts = 0
  return made.map(({ outcome }) => (outcome === 'lost' ? attempts + 1 : ++attempts))
}

/** Whether the last attempt was lost: its row has the decision on it. */
const isLost = (ledger: readonly LedgerRow[]) => ledger.at(-1)?.outcome === 'lost'
