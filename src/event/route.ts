import { isFailedQueue, type Message } from '../bus/index.js'

/** Where messages are requeued to: into one queue, whose type may not be known, or to every queue that takes a type. */
export type Route =
  | { readonly queue: string; readonly type: string | null }
  | { readonly queue: null; readonly type: string }

/** The type to publish the messages of a failed queue as, by its name, where no queue stands beside it. */
export type Routes = Readonly<Record<string, string>>

/** The type that a message gets on its route. A message that came without a type has the name of the queue it is in. */
export function typeOnRoute({ queue, type }: Route, message: Message): string {
  if (queue === null) return type
  return type ?? (isFailedQueue(message.type) ? queue : message.type)
}
