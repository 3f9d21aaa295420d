import { createHash } from 'node:crypto'
import type { Bus, FailedMessage, Message } from '../bus/index.js'
import type { OutsideBatch, OutsideTarget, OutsideWork } from '../engine/internal.js'
import { FinalError, OptionError } from '../policy/index.js'
import type { MessageSet, OperationRecord } from '../store/internal.js'
import { eventIn } from './event-in-letter.js'
import { LetterCopies } from './letter-copies.js'
import { typeOnRoute } from './route.js'

/** A message that the bus refused, and why. */
export interface KeptMessage {
  /** The id of the message; `null` if it has none. */
  readonly id: string | null
  /** A stable code. */
  readonly code: string
  /** The reason, in words. */
  readonly text: string
}

/** Told of each message of a requeue. */
export interface RequeueHooks {
  /** A message was published again, and removed. */
  readonly onRequeued?: (() => void) | undefined
  /** The bus refused a message, which stays. */
  readonly onKept?: ((message: KeptMessage) => void) | undefined
}

/** The reason on record for second copies of a dead letter. They were removed: a consumer that died had written it twice. */
export const COPIES = 'copy'

/** The maximum number of messages that are requeued before it is noted. */
const BATCH = 100

/** Carries out requeues on this bus. */
export function requeueTarget(bus: Bus, hooks: RequeueHooks = {}): OutsideTarget {
  return ({ set }) => ('queue' in set && set.bus === bus.address ? new RequeueWork(bus, set, hooks) : undefined)
}

/**
 * Publishes the messages of a failed queue again, oldest first. Each is removed once the broker has confirmed its publish, so
 * that none is lost; if the process dies in between, the message is published twice, under the same id.
 */
class RequeueWork implements OutsideWork {
  readonly #bus: Bus
  readonly #set: MessageSet
  readonly #hooks: RequeueHooks
  readonly #refused: Record<string, number> = {}
  readonly #published = new LetterCopies()
  #walk: AsyncIterator<FailedMessage> | undefined

  constructor(bus: Bus, set: MessageSet, hooks: RequeueHooks) {
    this.#bus = bus
    this.#set = set
    this.#hooks = hooks
  }

  async act(operation: OperationRecord, limit: number, signal: AbortSignal): Promise<OutsideBatch> {
    this.#walk ??= this.#begin(operation)
    let moved = 0
    const batch = (isRead: boolean, failure?: unknown) => ({ moved, refused: { ...this.#refused }, isRead, failure })
    try {
      for (let looked = 0; looked < Math.min(limit, BATCH) && !signal.aborted; looked++) {
        const { done, value: message } = await this.#walk.next()
        if (done) return batch(true)
        if (await this.#requeue(message)) moved++
      }
      return batch(false)
    } catch (failure) {
      return batch(false, failure)
    }
  }

  async close(): Promise<void> {
    await this.#walk?.return?.()
  }

  /** Messages that were kept are still there, and are tried again. */
  #begin({ moved, progress }: OperationRecord): AsyncIterator<FailedMessage> {
    const copies = progress.refused[COPIES] ?? 0
    if (copies > 0) this.#refused[COPIES] = copies
    return this.#bus.browse(this.#set.queue, { limit: this.#set.count - moved - copies })[Symbol.asyncIterator]()
  }

  /** Publishes, then removes. Returns false if the message itself is at fault, and rejects if anything else is. */
  async #requeue(message: FailedMessage): Promise<boolean> {
    if (this.#published.has(message)) {
      await message.remove()
      this.#leaveOut(COPIES)
      return false
    }
    const { route } = this.#set
    const again = {
      id: idAgain(message),
      type: typeOnRoute(route, message),
      headers: message.headers,
      body: eventIn(message),
    }
    try {
      await (route.queue === null ? this.#bus.publish(again) : this.#bus.put(route.queue, again))
    } catch (error) {
      if (!(error instanceof FinalError || error instanceof OptionError)) throw error
      this.#leaveOut(error.code)
      this.#hooks.onKept?.({ id: message.id ?? null, code: error.code, text: error.message })
      return false
    }
    await message.remove()
    this.#published.add(message)
    this.#hooks.onRequeued?.()
    return true
  }

  #leaveOut(reason: string): void {
    this.#refused[reason] = (this.#refused[reason] ?? 0) + 1
  }
}

const AGAIN = /\.again-[0-9a-f]{16}$/

/**
 * A new id, since consumers that gave the event up know it by the old one. It comes from the id and the event alone, not
 * from the rest of its dead letter: so two letters of one event get the same id, and a second publish is recognised.
 */
function idAgain(message: Message): string {
  const { id = '' } = message
  const digest = createHash('sha256').update(`${id}\n`).update(eventIn(message)).digest('hex')
  const original = id.replace(AGAIN, '')
  return /^[\x21-\x7e]{1,150}$/.test(original) ? `${original}.again-${digest.slice(0, 16)}` : digest
}
