import type { Message } from '../bus/index.js'
import type { UnreadableHeaders } from '../bus/internal.js'
import { type Content, contentOf } from '../event/internal.js'

/** A message as plain JSON. */
export type MessageView = Content & {
  /** `null` if it was published without an id. */
  readonly id: string | null
  readonly type: string
  readonly headers: Readonly<Record<string, string>>
  /** Present if its headers could not be read. */
  readonly unreadable?: UnreadableHeaders
}

/** The view of a message. */
export function messageView({ id, type, headers, unreadable, body }: Message): MessageView {
  return { id: id ?? null, type, headers, ...(unreadable && { unreadable }), ...contentOf(body) }
}
