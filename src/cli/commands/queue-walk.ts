import type { Command } from 'commander'
import type { Bus, FailedMessage } from '../../bus/index.js'
import type { CommandContext } from '../command.js'
import { signalsOf } from '../terminal/signals.js'
import { wholeNumber } from './options.js'
import type { FailedQueue } from './queue-routes.js'

/** How to go through a failed queue. */
export interface WalkOptions {
  /** So many messages at most, the oldest. */
  readonly limit?: number
  /** What is done to each, as in '3 requeued'. */
  readonly done: string
}

/** How far it came. */
export interface Walked {
  readonly count: number
  /** A signal ended it. */
  readonly isStopped: boolean
}

/** Adds the flag that ends a walk early. */
export function withLimitOption(command: Command): Command {
  return command.option('--limit <n>', 'so many at most, the oldest', wholeNumber(1, 1_000_000_000))
}

/** How often a walk that takes long says how far it is. */
const PROGRESS_EVERY_MS = 1000

/**
 * Goes through a failed queue, oldest first, and says how far it is. A signal stops it after the message that is under
 * way. `visit` says whether it has done with the message what is counted.
 */
export async function walk(
  { console, environment }: CommandContext,
  bus: Bus,
  { name, messages }: FailedQueue,
  { limit, done }: WalkOptions,
  visit: (message: FailedMessage) => Promise<boolean>,
): Promise<Walked> {
  const total = Math.min(messages, limit ?? messages)
  const signals = signalsOf(environment)
  let isStopped = false
  void signals.next().then(signal => {
    console.say(`${signal}: stopping after this message.`)
    isStopped = true
  })
  let count = 0
  let saidAt = performance.now()
  try {
    for await (const message of bus.browse(name, { limit })) {
      if (await visit(message)) count++
      if (isStopped) break
      if (performance.now() - saidAt < PROGRESS_EVERY_MS) continue
      saidAt = performance.now()
      console.say(`${count} of ${total} ${done} so far.`)
    }
    return { count, isStopped }
  } catch (error) {
    console.say(`${count} ${done} before it failed. The rest is where it was.`)
    throw error
  } finally {
    signals.close()
  }
}
