import { expect } from 'vitest'
import type { StoreContract } from '../../src/store/internal.js'
import { checkInvariants } from '../conformance/invariants.js'
import { countEffects, createEffects, type Transaction } from './effects.js'
import type { Happened } from './event-handler.js'

/** Makes the table that handlers write to. */
export async function prepareEffects(store: StoreContract): Promise<void> {
  await store.once('table of effects', (tx: Transaction) => createEffects(tx))
}

/** How often each event took effect, by its number. */
export async function effectsOf(store: StoreContract): Promise<Map<number, number>> {
  const key = `look ${crypto.randomUUID()}`
  const rows = await store.once(key, (tx: Transaction) => countEffects(tx))
  return new Map(rows.map(({ task, times }) => [Number(task), Number(times)]))
}

/** Whether nothing is left to do in the store, and all good events have taken effect. */
export async function isDone(store: StoreContract, events: readonly Happened[]): Promise<boolean> {
  const { waiting, running } = await store.count({})
  return waiting + running === 0 && (await effectsOf(store)).size === events.filter(({ isBad }) => !isBad).length
}

/** Each good event took effect once, the bad ones did not, and the store is sound. */
export async function expectEffectsOnce(store: StoreContract, events: readonly Happened[]): Promise<void> {
  const good = events.filter(({ isBad }) => !isBad).map(({ number }) => [number, 1] as const)
  expect(sorted([...(await effectsOf(store))])).toEqual(sorted(good))
  await checkInvariants(store)
}

/** The numbers of the bad events, as the ids of their messages. */
export function badIds(events: readonly Happened[]): string[] {
  return events.filter(({ isBad }) => isBad).map(({ number }) => `event-${number}`)
}

function sorted(rows: readonly (readonly [number, number])[]): (readonly [number, number])[] {
  return rows.toSorted(([a], [b]) => a - b)
}
