import { OptionError } from '../../policy/index.js'
import { isObject, wrongOption } from '../../policy/internal.js'
import type { BudgetStore } from './budget-store.js'
import type { GroupStore } from './group-store.js'
import type { AuditStore, StoreContract } from './store.js'

/** The property that marks a store, by the same key in all copies of the package. */
export const COPY: unique symbol = Symbol.for('redrive.store')

/** The value of that property in stores of this copy of the package. */
export const THIS_COPY: unique symbol = Symbol('this copy of redrive')

/**
 * Keeps tasks, their ledger, runs, idempotency keys and audit records: a `MemoryStore`, a `SqliteStore` or a
 * `PostgresStore`. Open one, pass it to queues, workers, pipelines and to the functions of `redrive/operate`, and close it.
 *
 * Each verb is one transaction, and its promise resolves after the commit; concurrent calls may share one.
 */
export interface Store
  extends Pick<
    StoreContract,
    | 'enqueue'
    | 'get'
    | 'list'
    | 'count'
    | 'ledger'
    | 'lanes'
    | 'pause'
    | 'limit'
    | 'once'
    | 'idempotency'
    | 'close'
    | typeof COPY
  > {
  /** The audit log, to be read. */
  readonly audit: Pick<AuditStore, 'page'>
  /** Budgets of kinds, with their gates. */
  readonly budgets: BudgetStore
  /** Failures with the same fingerprint. */
  readonly groups: Omit<GroupStore, 'regroup' | 'regrouped'>
}

/** All verbs of a store that a user has passed. Throws an `OptionError` if it is none, or belongs to another copy of the package. */
export function contractOf(store: Store): StoreContract {
  if (isOfThisCopy(store)) return store
  if (isObject(store) && COPY in store) {
    throw new OptionError(
      'store',
      "This store belongs to another copy of the package 'redrive': the program has loaded two. See where they are with `npm ls redrive`, and keep one.",
    )
  }
  throw wrongOption('store', 'a new MemoryStore(), or what openSqlite() or openPostgres() resolved with', store)
}

function isOfThisCopy(store: Store): store is StoreContract {
  return isObject(store) && COPY in store && store[COPY] === THIS_COPY
}
