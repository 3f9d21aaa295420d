import { createHash } from 'node:crypto'
import { type Bus, type FailedMessage, isFailedQueue, type Message } from '../bus/index.js'
import { FinalError, OptionError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { Remark } from './cause.js'
import { NoRouteError } from './errors.js'
import { findFailedQueue, type KnownQueues } from './failed-queues.js'
import { eventIn } from './message-view.js'
import { type Route, typeOnRoute } from './route.js'
import { discover, messageCounts, typeOf } from './topology.js'
import { type FailedQueueOptions, walkFailedQueue } from './walk.js'

/** Where to requeue to, and what is known about the bus. */
export interface RequeueTarget extends KnownQueues {
  /** The queue to requeue into. Default: the failed queue's own route. */
  readonly target?: string
}

/** The effect that a requeue would have now. Nothing is moved. */
export interface RequeuePlan {
  /** The number of messages in the failed queue, up to the limit. */
  readonly count: number
  /** Where the messages would go. */
  readonly route: Route
}

/** The result of a requeue. */
export interface Requeued {
  /** Where the messages went. */
  readonly route: Route
  /** How many were published again. */
  readonly requeued: number
  /** Second copies of a dead letter that was requeued. They were removed: a consumer that died had written it twice. */
  readonly duplicates: number
  /** Messages that the bus refused. They are still in the failed queue. */
  readonly kept: readonly KeptMessage[]
  /** Whether the signal stopped it. */
  readonly isStopped: boolean
}

/** A message that the bus refused, and why. */
export interface KeptMessage extends Remark {
  /** The id of the message; `null` if it has none. */
  readonly id: string | null
}

/** Plans a requeue. Throws a `NoFailedQueueError` or a `NoRouteError` if it is not possible. */
export async function planRequeue(
  bus: Bus,
  name: string,
  { target, limit = Infinity, ...known }: RequeueTarget & Pick<FailedQueueOptions, 'limit'> = {},
): Promise<RequeuePlan> {
  const { messages, route } = await findFailedQueue(bus, name, known)
  const chosen = target === undefined ? route : await routeInto(bus, target, known)
  if (chosen === null) throw new NoRouteError(`No route is known for ${quoted(name)}. Name the queue to requeue into.`)
  return { count: Math.min(messages, limit), route: chosen }
}

/**
 * Publishes the messages of a failed queue again, oldest first: the original event of a dead letter, and any other body as
 * it is. Each message is removed once the broker has confirmed its publish, so that none is lost; if the process dies in
 * between, the message is published twice, under the same id.
 *
 * ```ts
 * const { requeued, kept } = await requeueFailedQueue(bus, 'chunking.failed', { limit: 100 })
 * ```
 */
export async function requeueFailedQueue(
  bus: Bus,
  name: string,
  options: RequeueTarget & FailedQueueOptions = {},
): Promise<Requeued> {
  const { route } = await planRequeue(bus, name, options)
  const kept: KeptMessage[] = []
  const published = new Set<string>()
  let duplicates = 0
  for await (const message of walkFailedQueue(bus, name, options)) {
    const id = idAgain(message)
    if (published.has(id)) {
      await message.remove()
      duplicates++
      continue
    }
    const refusal = await requeue(bus, route, message, id)
    if (refusal === undefined) published.add(id)
    else kept.push(refusal)
    options.onProgress?.(published.size)
  }
  return { route, requeued: published.size, duplicates, kept, isStopped: options.signal?.aborted === true }
}

/** Publishes, then removes. Returns a refusal if the message itself is at fault, and rejects if anything else is. */
async function requeue(bus: Bus, route: Route, message: FailedMessage, id: string): Promise<KeptMessage | undefined> {
  const type = typeOnRoute(route, message)
  const again = { id, type, headers: message.headers, body: eventIn(message) }
  try {
    await (route.queue === null ? bus.publish(again) : bus.put(route.queue, again))
  } catch (error) {
    if (!(error instanceof FinalError || error instanceof OptionError)) throw error
    return { id: message.id ?? null, code: error.code, text: error.message }
  }
  await message.remove()
  return undefined
}

async function routeInto(bus: Bus, queue: string, known: KnownQueues): Promise<Route> {
  if (isFailedQueue(queue)) throw new NoRouteError(`${quoted(queue)} is a failed queue: nothing consumes it.`)
  const { topology } = await discover(bus, known.topology)
  const counts = await messageCounts(bus, [queue], topology)
  if (!counts.has(queue)) throw new NoRouteError(`There is no queue ${quoted(queue)}.`)
  return { queue, type: typeOf(queue, topology) ?? null }
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
