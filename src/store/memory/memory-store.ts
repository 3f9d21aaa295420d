import { checkOptions, type KnownOptions } from '../../policy/internal.js'
import { type Clock, systemClock } from '../../time/index.js'
import type { Storable } from '../contract/storable.js'
import type { OnceOptions, PolicyStore, StoreContract } from '../contract/store.js'
import { checkFence } from '../rules/check.js'
import { BaseStore } from '../verbs/base-store.js'
import { MemoryOnce } from './once.js'
import { MemoryTasks } from './tasks.js'
import { memoryTransactions } from './transactions.js'
import { MemoryVerbs } from './verbs.js'

/** Options of a `MemoryStore`. @inline */
export interface MemoryStoreOptions {
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock | undefined
}

const MEMORY_OPTIONS: KnownOptions<MemoryStoreOptions> = { clock: 'object' }

/**
 * Keeps tasks in this process: for tests, and for work that need not outlive the process. Each verb runs in one go, so it
 * is a transaction by itself.
 */
export class MemoryStore extends BaseStore implements StoreContract {
  readonly #tasks: MemoryTasks
  readonly #once: MemoryOnce

  constructor(options: MemoryStoreOptions = {}) {
    checkOptions('A memory store', options, MEMORY_OPTIONS)
    const { clock = systemClock } = options
    const tasks = new MemoryTasks(clock)
    super({
      verbs: new MemoryVerbs(tasks),
      transactions: memoryTransactions(tasks.tx),
      bell: tasks.bell,
      idempotency: tasks.keys,
      policies: memoryPolicies(),
      audit: tasks.audit,
    })
    this.#tasks = tasks
    this.#once = new MemoryOnce(tasks.keys, ({ id, token }) => tasks.task(id)?.lease?.token === token)
  }

  async once<T>(key: string, work: (tx: never) => T & Storable<T>, options: OnceOptions = {}): Promise<Awaited<T>> {
    checkFence(options)
    return this.#once.run(key, work, options)
  }

  async close(): Promise<void> {
    this.#tasks.bell.clear()
  }
}

function memoryPolicies(): PolicyStore {
  const policies = new Map<string, string>()
  return {
    keep: async (hash, policy) => void policies.set(hash, policy),
    get: async hash => policies.get(hash),
  }
}
