import type { Bus } from '../bus/index.js'
import { findFailedQueue } from './failed-queues.js'
import { type FailedQueueOptions, walkFailedQueue } from './walk.js'

/** The result of a purge. */
export interface Purged {
  /** How many messages were removed. */
  readonly removed: number
  /** Whether the signal stopped it. */
  readonly isStopped: boolean
}

/** Removes the messages of a failed queue for good, oldest first. */
export async function purgeFailedQueue(bus: Bus, name: string, options: FailedQueueOptions = {}): Promise<Purged> {
  await findFailedQueue(bus, name)
  let removed = 0
  for await (const message of walkFailedQueue(bus, name, options)) {
    await message.remove()
    removed++
    options.onProgress?.(removed)
  }
  return { removed, isStopped: options.signal?.aborted === true }
}
