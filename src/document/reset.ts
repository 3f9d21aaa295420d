import type { Collection } from './collection.js'
import type { NewValues } from './source.js'

/**
 * The tracking fields of a document that gets all its attempts again. The generation stays: an event of an earlier dispatch
 * must not fit again.
 */
export function resetValues({ shape }: Pick<Collection, 'shape'>): NewValues {
  return { status: shape.statuses.pending, attemptCount: 0, lastAttemptAt: null, retryAt: null, dispatches: 0 }
}
