import { FinalError, type GiveUpReason } from '../policy/index.js'

/** Reported for an attempt that was not made, because it would have begun after the work's time to live. */
export class RefusedError extends FinalError {
  static {
    RefusedError.prototype.name = 'RefusedError'
  }

  constructor(reason: GiveUpReason) {
    super(`The attempt was not started (${reason}).`, { code: reason })
  }
}
