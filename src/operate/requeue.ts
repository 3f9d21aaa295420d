import { type Bus, isFailedQueue } from '../bus/index.js'
import { COPIES, type KeptMessage, type Route, requeueTarget } from '../event/internal.js'
import { quoted } from '../policy/internal.js'
import { type By, MemoryStore, type Store } from '../store/index.js'
import { contractOf, type MessageSet, type OperationRecord, type StoreContract } from '../store/internal.js'
import type { Clock } from '../time/index.js'
import { NoRouteError, QueueBusyError } from './errors.js'
import { findFailedQueue, type KnownQueues } from './failed-queues.js'
import { findSame, runUntilStopped } from './operations.js'
import { pagesOf } from './pages.js'
import { discover, messageCounts, typeOf } from './topology.js'
import type { FailedQueueOptions } from './walk.js'

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
  /** Whether the signal or an operator stopped it. */
  readonly isStopped: boolean
  /** The id of its operation; `null` if it was not recorded. */
  readonly operation: string | null
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

/** Options of `requeueFailedQueue`. */
export interface RequeueOptions extends RequeueTarget, FailedQueueOptions {
  /** The maximum number of messages published per second. Default: no limit. */
  readonly perSecond?: number | undefined
  /**
   * Puts it on record as an operation of this store, which can be looked up, stopped and continued. Default: nothing is recorded.
   */
  readonly record?: OperationRecording | undefined
  /** Default: the system clock. */
  readonly clock?: Clock | undefined
}

/** Where an operation is recorded, who asks for it, and why. */
export interface OperationRecording extends By {
  /** The store that keeps the record. */
  readonly store: Store
}

/**
 * Publishes the messages of a failed queue again, oldest first: the original event of a dead letter, and any other body as
 * it is. Each message is removed once the broker has confirmed its publish, so that none is lost; if the process dies in
 * between, the message is published twice, under the same id. Throws a `QueueBusyError` if another operation on record
 * requeues the same queue.
 *
 * ```ts
 * const { requeued, kept } = await requeueFailedQueue(bus, 'chunking.failed', { limit: 100 })
 * ```
 */
export async function requeueFailedQueue(bus: Bus, name: string, options: RequeueOptions = {}): Promise<Requeued> {
  const { signal, onProgress, record, clock } = options
  const { store: recorded = new MemoryStore(), ...by } = record ?? { who: 'nobody' }
  const store = contractOf(recorded)
  const { operation: started, route } = await createRequeue(bus, name, { ...options, record: { ...by, store } })
  const kept: KeptMessage[] = []
  let requeued = 0
  const onRequeued = () => onProgress?.(++requeued)
  const outside = requeueTarget(bus, { onRequeued, onKept: message => kept.push(message) })
  const operation = await runUntilStopped(store, started.id, by, { signal, clock, outside })
  const duplicates = operation.progress.refused[COPIES] ?? 0
  return {
    route,
    requeued: operation.moved,
    duplicates,
    kept,
    isStopped: operation.status === 'stopped',
    operation: record === undefined ? null : started.id,
  }
}

/** Options of `startRequeue`. */
export type StartRequeueOptions = Omit<RequeueOptions, 'record' | 'signal' | 'onProgress' | 'clock'> & {
  readonly record: OperationRecording
}

/**
 * Puts a requeue on record, for a running consumer on this bus to carry out: it has that store, too. Throws a `QueueBusyError`
 * if another operation on record requeues the same queue.
 */
export async function startRequeue(bus: Bus, name: string, options: StartRequeueOptions): Promise<OperationRecord> {
  return (await createRequeue(bus, name, options)).operation
}

async function createRequeue(bus: Bus, name: string, options: StartRequeueOptions) {
  const { perSecond, limit, record } = options
  const { store: recorded, who, why } = record
  const store = contractOf(recorded)
  const { route, count } = await planRequeue(bus, name, options)
  const set = { queue: name, bus: bus.address, route, count }
  const settings = { ...(perSecond !== undefined && { perSecond }), ...(limit !== undefined && { limit }) }
  const by = { who, why }
  const wanted = { act: 'requeue', set, by, settings } as const
  const same = await findSame(store, wanted)
  if (same === undefined) await checkFree(store, set)
  return { operation: same ?? (await store.operations.create(wanted)), route }
}

/** Two operations on one queue would share it by chance, and count each other's messages as their own. */
async function checkFree(store: StoreContract, { queue, bus }: MessageSet): Promise<void> {
  for await (const page of pagesOf(request => store.operations.list({ isOpen: true }, request))) {
    const other = page.find(({ set }) => 'queue' in set && set.queue === queue && set.bus === bus)
    if (other !== undefined) throw new QueueBusyError(queue, other)
  }
}

async function routeInto(bus: Bus, queue: string, known: KnownQueues): Promise<Route> {
  if (isFailedQueue(queue)) throw new NoRouteError(`${quoted(queue)} is a failed queue: nothing consumes it.`)
  const { topology } = await discover(bus, known.topology)
  const counts = await messageCounts(bus, [queue], topology)
  if (!counts.has(queue)) throw new NoRouteError(`There is no queue ${quoted(queue)}.`)
  return { queue, type: typeOf(queue, topology) ?? null }
}
