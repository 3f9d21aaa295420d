import { FinalError, RetryableError } from '../policy/index.js'

/** The disk has no room. The transaction was rolled back as a whole: nothing of the call was written. */
export class StoreFullError extends RetryableError {
  static {
    StoreFullError.prototype.name = 'StoreFullError'
  }

  constructor(path: string, options?: ErrorOptions) {
    super(`There is no room to write to '${path}': nothing of this call was written. Make room, then call again.`, {
      ...options,
      code: 'store_full',
    })
  }
}

/** Other processes held the lock of the file for too long. Nothing of the call was written. */
export class StoreBusyError extends RetryableError {
  static {
    StoreBusyError.prototype.name = 'StoreBusyError'
  }

  constructor(path: string, options?: ErrorOptions) {
    super(`Another process keeps '${path}' locked: nothing of this call was written. Look for a long transaction.`, {
      ...options,
      code: 'store_busy',
    })
  }
}

/** The store was closed, so that it takes no more calls. */
export class StoreClosedError extends FinalError {
  static {
    StoreClosedError.prototype.name = 'StoreClosedError'
  }

  constructor(path: string) {
    super(`The store '${path}' is closed. Open it again, or close it later.`, { code: 'store_closed' })
  }
}

/** The file is not one of ours. It was not touched. */
export class StoreForeignError extends FinalError {
  static {
    StoreForeignError.prototype.name = 'StoreForeignError'
  }

  constructor(path: string, problem: string, options?: ErrorOptions) {
    super(`'${path}' is not a Redrive store: it ${problem}. It was left as it is. Give another path.`, {
      ...options,
      code: 'store_foreign',
    })
  }
}

/** The file is one of ours, and damaged. Opening does not touch it. */
export class StoreDamagedError extends FinalError {
  static {
    StoreDamagedError.prototype.name = 'StoreDamagedError'
  }

  constructor(path: string, problem: string, options?: ErrorOptions) {
    super(
      `'${path}' is damaged: ${problem}. Bring it back from a backup, or save what can be read: sqlite3 '${path}' .recover`,
      { ...options, code: 'store_damaged' },
    )
  }
}

/** The file was written by a newer Redrive. It was not touched. */
export class StoreNewerError extends FinalError {
  static {
    StoreNewerError.prototype.name = 'StoreNewerError'
  }

  constructor(path: string, found: number, known: number) {
    super(
      `'${path}' has schema version ${found}, and this Redrive knows versions up to ${known}. It was left as it is. Update redrive.`,
      { code: 'store_newer' },
    )
  }
}

/** A package that this part of Redrive needs is not there, or does not load. */
export class MissingPackageError extends FinalError {
  static {
    MissingPackageError.prototype.name = 'MissingPackageError'
  }

  constructor(part: string, name: string, range: string, options?: ErrorOptions) {
    super(`${part} needs the package '${name}', which does not load here. Run: npm install ${name}@${range}`, {
      ...options,
      code: 'missing_package',
    })
  }
}

/** The task that a write was to belong to is somebody else's by now. Nothing was written. */
export class StaleFenceError extends FinalError {
  static {
    StaleFenceError.prototype.name = 'StaleFenceError'
  }

  constructor(key: string, id: string) {
    super(`'${key}' was not run: the task '${id}' is no longer this worker's.`, { code: 'stale_fence' })
  }
}
