import type { Store } from '../contract/public-store.js'
import { MemoryStore as Implementation, type MemoryStoreOptions } from './memory-store.js'

/** A store in this process, as users see it. */
export type MemoryStore = Store

/**
 * Keeps tasks in this process: for tests, and for work that need not outlive the process.
 *
 * ```ts
 * const store = new MemoryStore()
 * ```
 */
export const MemoryStore: new (options?: MemoryStoreOptions) => MemoryStore = Implementation
