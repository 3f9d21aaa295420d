import { createHash } from 'node:crypto'
import type { Message } from '../bus/index.js'
import { contentOf, eventIn } from './event-in-letter.js'

/**
 * Recognises second copies of a dead letter. A consumer that dies after it has written a letter, and before that is on
 * record, leaves the event to another one, which may write the letter again. RabbitMQ keeps both.
 */
export class LetterCopies {
  readonly #seen = new Set<string>()

  /** Whether a message is a copy of one that was added. */
  has(message: Message): boolean {
    const identity = identityOf(message)
    return identity !== undefined && this.#seen.has(identity)
  }

  add(message: Message): void {
    const identity = identityOf(message)
    if (identity !== undefined) this.#seen.add(identity)
  }
}

/** Tells a letter from others; `undefined` if nothing does. */
function identityOf(message: Message): string | undefined {
  const content = contentOf(message.body)
  const letter = 'body' in content ? content.body : undefined
  if (typeof letter === 'object' && letter !== null && 'dead_letter_id' in letter)
    return JSON.stringify(letter.dead_letter_id)
  // A message of another program: those without an id may be different ones, however alike they are.
  return message.id && createHash('sha256').update(`${message.id}\n`).update(eventIn(message)).digest('hex')
}
