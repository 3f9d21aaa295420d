import { createHash } from 'node:crypto'

/** The occasions on which a message is sent. */
export type NoticeType =
  | 'new_group'
  | 'more_new_groups'
  | 'regressed'
  | 'oldest_age'
  | 'gate_opened'
  | 'operation_ended'
  | 'slots_missed'

/** A message, before it is known where it goes. */
export interface Notice {
  /** The occasion. */
  readonly type: NoticeType
  /** Tells it from all others of its type: two processes that find the same thing send one message. */
  readonly subject: string
  /** It goes on for as long as it is found, and is repeated now and then. Otherwise it happens once. */
  readonly lasts?: boolean
  /** A few sentences for people, and the command to run next. */
  readonly text: string
  /** The same for programs. Times are ISO 8601 text, in UTC. */
  readonly facts: Readonly<Record<string, string | number | boolean | null>>
}

/** A message as it is delivered, at least once. */
export interface Notification extends Omit<Notice, 'subject' | 'lasts'> {
  /** The same each time that it is delivered. */
  readonly id: string
  /** When it was found, as ISO 8601 text. */
  readonly at: string
}

/** A store's ids have room for 512 bytes, and a subject may hold a kind and a category. */
const MAX_SUBJECT = 200

/** The id of a message about this subject: of the nth one, if it lasts. */
export function messageId({ type, subject: about }: Pick<Notice, 'type' | 'subject'>, nth?: number): string {
  const subject = nth === undefined ? about : `${about}/${nth}`
  const isPlain = subject.length <= MAX_SUBJECT && /^[\x21-\x7e]*$/.test(subject)
  return `${type}:${isPlain ? subject : createHash('sha256').update(subject).digest('hex')}`
}
