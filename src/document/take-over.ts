import { hostname } from 'node:os'
import { driveOperation } from '../engine/internal.js'
import type { StoreContract } from '../store/internal.js'
import { type Clock, sleep } from '../time/index.js'
import type { Collection } from './collection.js'
import { resetTarget } from './reset-work.js'
import type { DocumentSource } from './source.js'

/** How often to look for resets that nobody drives. */
const LOOK_MS = 5000
const PAGE = 100

/** Where resets are on record, and where their documents are. */
export interface TakeOverOptions {
  readonly store: StoreContract
  readonly source: () => Promise<DocumentSource>
  readonly collections: readonly Collection[]
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** Carries out resets of documents that nobody else drives, so that no terminal has to stay open for them. */
export async function takeOverResets({ store, source, collections, clock, signal }: TakeOverOptions): Promise<void> {
  const driver = `sweeper-${hostname()}-${process.pid}-${crypto.randomUUID().slice(0, 8)}`
  const driven = new Map<string, Promise<unknown>>()
  const drive = async (id: string) => {
    const outside = resetTarget(await source(), collections)
    await driveOperation(store, id, { driver, signal, clock, outside })
  }
  const look = async () => {
    let after: string | undefined
    do {
      const { items, next } = await store.operations.list({ isOpen: true }, { limit: PAGE, after })
      for (const { id } of items.filter(({ id, act }) => act === 'reset' && !driven.has(id))) {
        // A store or a source that is away is asked again; sweeps tell of it.
        const driving = drive(id).catch(() => {})
        driven.set(id, driving)
        void driving.finally(() => driven.delete(id))
      }
      after = next
    } while (after !== undefined)
  }
  while (!signal.aborted) {
    await look().catch(() => {})
    await sleep(LOOK_MS, clock, signal).catch(() => {})
  }
  await Promise.all(driven.values())
}
