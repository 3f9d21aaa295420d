import type { Bus, FailedMessage } from '../bus/index.js'

/** How far to walk through a failed queue. */
export interface WalkOptions {
  /** Maximum number of messages, oldest first. Default: all of them. */
  readonly limit?: number
  /** Stops the walk after the current message. */
  readonly signal?: AbortSignal
}

/** An operation on the messages of a failed queue, one by one. */
export interface FailedQueueOptions extends WalkOptions {
  /** Called after each message with the number done so far. */
  readonly onProgress?: (done: number) => void
}

/**
 * Walks through the messages of a failed queue, oldest first. A message stays where it is unless you call its `remove`.
 *
 * ```ts
 * for await (const message of walkFailedQueue(bus, 'chunking.failed')) console.log(messageView(message))
 * ```
 */
export async function* walkFailedQueue(
  bus: Bus,
  name: string,
  { limit, signal }: WalkOptions = {},
): AsyncGenerator<FailedMessage> {
  if (signal?.aborted) return
  for await (const message of bus.browse(name, { limit })) {
    yield message
    if (signal?.aborted) return
  }
}
