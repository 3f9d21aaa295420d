import { connectAdvice } from '../../attempt/index.js'
import { FinalError, RetryableError } from '../../policy/index.js'
import { problemOf, quoted } from '../../policy/internal.js'

/** Thrown when the disk is full. The transaction was rolled back: nothing of it was written. */
export class StoreFullError extends RetryableError {
  static {
    StoreFullError.prototype.name = 'StoreFullError'
  }

  constructor(store: string, options?: ErrorOptions) {
    super(`${store} has no space left: this write was rolled back. Make room, then call again.`, {
      ...options,
      code: 'store_full',
    })
  }
}

/** Thrown when others hold a lock for too long. Nothing of the transaction was written. */
export class StoreBusyError extends RetryableError {
  static {
    StoreBusyError.prototype.name = 'StoreBusyError'
  }

  /** `holder` names who holds the lock, if that is known. */
  constructor(store: string, { holder, ...options }: ErrorOptions & { readonly holder?: string | undefined } = {}) {
    super(
      holder === undefined
        ? `${store} is locked by others: this write was rolled back. Look for a long transaction.`
        : `${store} is locked by ${holder}: this write was rolled back. End that transaction.`,
      { ...options, code: 'store_busy' },
    )
  }
}

/** Thrown when the database cannot be written to: it is a standby or read-only, or the file's permissions forbid it. */
export class StoreReadOnlyError extends RetryableError {
  static {
    StoreReadOnlyError.prototype.name = 'StoreReadOnlyError'
  }

  constructor(store: string, problem: string, options?: ErrorOptions) {
    super(`${store} cannot be written to (${problem}): this write was rolled back.`, {
      ...options,
      code: 'store_read_only',
    })
  }
}

/** Thrown when the path of an open file names another file, or none: nobody would ever find what is written to it. */
export class StoreReplacedError extends FinalError {
  static {
    StoreReplacedError.prototype.name = 'StoreReplacedError'
  }

  constructor(path: string) {
    super(
      `'${path}' was removed or replaced while it was open: this write was rolled back. Open it again, and next time stop whatever uses it first.`,
      { code: 'store_replaced' },
    )
  }
}

/**
 * Thrown when a store can never take a call: a value is too large for it, or breaks one of its rules. The same call would be
 * refused again, so it is not retried. Nothing of it was written.
 */
export class StoreRefusedError extends FinalError {
  static {
    StoreRefusedError.prototype.name = 'StoreRefusedError'
  }

  constructor(store: string, problem: string, options?: ErrorOptions) {
    super(`${store} refused the call (${problem}): nothing of it was written, and it would be refused again.`, {
      ...options,
      code: 'store_refused',
    })
  }
}

/** Thrown when a statement in a transaction failed and the function caught the error. Nothing of the call was written. */
export class StoreRolledBackError extends RetryableError {
  static {
    StoreRolledBackError.prototype.name = 'StoreRolledBackError'
  }

  constructor(store: string) {
    super(
      `${store} rolled the transaction back, because a statement in it failed: nothing of it was written. Do not catch errors of statements, or run those that may fail after a SAVEPOINT.`,
      { code: 'store_rolled_back' },
    )
  }
}

/** Thrown when a store is called after it was closed. */
export class StoreClosedError extends FinalError {
  static {
    StoreClosedError.prototype.name = 'StoreClosedError'
  }

  constructor(store: string) {
    super(`${store} is closed. Open it again, or close it later.`, { code: 'store_closed' })
  }
}

/** Thrown when a file is not a Redrive store. It was not touched. */
export class StoreForeignError extends FinalError {
  static {
    StoreForeignError.prototype.name = 'StoreForeignError'
  }

  constructor(path: string, problem: string, options?: ErrorOptions) {
    super(`'${path}' is not a Redrive store: it ${problem}. It was left as it is. Use another path.`, {
      ...options,
      code: 'store_foreign',
    })
  }
}

/** Thrown when the file of a store is damaged. Opening does not touch it. */
export class StoreDamagedError extends FinalError {
  static {
    StoreDamagedError.prototype.name = 'StoreDamagedError'
  }

  constructor(path: string, problem: string, options?: ErrorOptions) {
    super(
      `'${path}' is damaged: ${problem}. Restore it from a backup, or recover what can be read: sqlite3 '${path}' .recover`,
      { ...options, code: 'store_damaged' },
    )
  }
}

/** Thrown when another version of Redrive has written the store, and this one does not know its tables. It was not touched. */
export class StoreNewerError extends FinalError {
  static {
    StoreNewerError.prototype.name = 'StoreNewerError'
  }

  constructor(path: string, found: number, known: number) {
    super(
      `'${path}' has schema version ${found}, and this Redrive knows versions up to ${known}. It was left as it is. Update redrive. If a build from before 0.1.0 wrote it, export what you need with that build, and start a new store.`,
      { code: 'store_newer' },
    )
  }
}

/** Thrown when a task no longer belongs to the worker that writes on its behalf. Nothing was written. */
export class StaleFenceError extends FinalError {
  static {
    StaleFenceError.prototype.name = 'StaleFenceError'
  }

  constructor(key: string, id: string) {
    super(`${quoted(key)} was not run: the task ${quoted(id)} is no longer this worker's.`, { code: 'stale_fence' })
  }
}

/** Thrown when the result of a `once` cannot be stored. Nothing that its function wrote is committed. */
export class OnceResultError extends FinalError {
  static {
    OnceResultError.prototype.name = 'OnceResultError'
  }

  constructor(key: string, cause: unknown) {
    super(
      `The result of once(${quoted(key)}) cannot be stored: ${problemOf(cause)}. Nothing was written. ` +
        'Return data that JSON can hold, such as the rows of a query rather than its whole result, or nothing at all.',
      { code: 'once_result_invalid', cause },
    )
  }
}

/** Thrown when the database does not answer. */
export class StoreUnavailableError extends RetryableError {
  static {
    StoreUnavailableError.prototype.name = 'StoreUnavailableError'
  }

  constructor(store: string, problem: string, { wasSent, ...options }: ErrorOptions & { readonly wasSent: boolean }) {
    super(
      wasSent
        ? `${store} did not answer (${problem}): whether this call was written is not known. Call again; an enqueue with your own id is not done twice.`
        : `${store} cannot be reached (${problem}): nothing of this call was sent. ${connectAdvice(options.cause)}`,
      { ...options, code: 'store_unavailable' },
    )
  }
}

const GRANT = 'Its owner grants it what it needs: redrive migrate --grant ROLE.'

/** Thrown when the database or the file refuses this user, or the user lacks a privilege that the store needs. */
export class StoreForbiddenError extends FinalError {
  static {
    StoreForbiddenError.prototype.name = 'StoreForbiddenError'
  }

  constructor(store: string, problem: string, { advice = GRANT, ...options }: ErrorOptions & { advice?: string } = {}) {
    super(`${store} refuses this user: ${problem}. ${advice}`, { ...options, code: 'store_forbidden' })
  }
}

const MIGRATE = "Run 'redrive migrate', with a role that may make tables."

/** Thrown when the store does not exist or is older than this code, and opening it must not migrate it. */
export class StoreNotReadyError extends FinalError {
  static {
    StoreNotReadyError.prototype.name = 'StoreNotReadyError'
  }

  constructor(
    store: string,
    problem: string,
    { advice = MIGRATE, ...options }: ErrorOptions & { advice?: string } = {},
  ) {
    super(`${store} ${problem}. ${advice}`, { ...options, code: 'store_not_ready' })
  }
}

/** Thrown when a move is refused: one of the two stores is in use, or the target holds something else. */
export class MoveRefusedError extends FinalError {
  static {
    MoveRefusedError.prototype.name = 'MoveRefusedError'
  }

  constructor(problem: string) {
    super(`${problem}.`, { code: 'move_refused' })
  }
}

/** Thrown when the two stores differ after a move. */
export class MoveDifferenceError extends FinalError {
  static {
    MoveDifferenceError.prototype.name = 'MoveDifferenceError'
  }

  constructor(difference: string) {
    super(
      `The two stores differ: ${difference}. Stop whatever still uses one of them, and move again; the source is as it was.`,
      { code: 'move_difference' },
    )
  }
}
