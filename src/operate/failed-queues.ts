import { type Bus, failedQueueOf, isFailedQueue, type Topology } from '../bus/index.js'
import type { Route, Routes } from '../event/internal.js'
import { NoFailedQueueError } from './errors.js'
import { discover, messageCounts, typeOf } from './topology.js'

/** Facts about a bus that its broker does not tell. */
export interface KnownQueues {
  /** Queues, and the type that each takes. */
  readonly topology?: Topology
  /** Where to requeue the messages of failed queues that have no queue beside them. */
  readonly routes?: Routes
}

/** A failed queue on the broker. */
export interface FailedQueue {
  /** The name of the failed queue. */
  readonly name: string
  /** How many messages are in it. */
  readonly messages: number
  /** Where its messages would be requeued to; `null` if no route is known. */
  readonly route: Route | null
}

/** The failed queues of a bus. */
export interface FailedQueues {
  /** Sorted by name. */
  readonly queues: readonly FailedQueue[]
  /** Whether the broker listed its queues, so that there are no others. RabbitMQ needs its management plugin for that. */
  readonly isComplete: boolean
}

/** Lists the failed queues of a bus, with the number of messages in each and where they would be requeued to. */
export async function failedQueues(bus: Bus, known: KnownQueues = {}): Promise<FailedQueues> {
  const { topology, failedQueues, isComplete } = await discover(bus, known.topology)
  const expected = [...Object.keys(topology).map(failedQueueOf), ...Object.keys(known.routes ?? {})]
  const names = [...new Set([...expected, ...failedQueues])].sort()
  return { queues: await present(bus, names, { ...known, topology }), isComplete }
}

/** Finds a failed queue by its name. Throws a `NoFailedQueueError` if there is none. */
export async function findFailedQueue(bus: Bus, name: string, known: KnownQueues = {}): Promise<FailedQueue> {
  if (!isFailedQueue(name)) throw new NoFailedQueueError(name)
  const { topology } = await discover(bus, known.topology)
  const [found] = await present(bus, [name], { ...known, topology })
  if (found === undefined) throw new NoFailedQueueError(name)
  return found
}

/** Those of the failed queues that exist. */
async function present(bus: Bus, names: readonly string[], known: KnownQueues): Promise<FailedQueue[]> {
  const { topology = {}, routes = {} } = known
  const counts = await messageCounts(bus, names.map(queueBeside), topology)
  const routeOf = (name: string): Route | null => {
    const queue = queueBeside(name)
    // The queue that failed on them and no other: those that take the same type have had the events.
    if (counts.has(queue)) return { queue, type: typeOf(queue, topology) ?? null }
    const type = routes[name]
    return type === undefined ? null : { queue: null, type }
  }
  return names.flatMap(name => {
    const messages = counts.get(name)
    return messages === undefined ? [] : [{ name, messages, route: routeOf(name) }]
  })
}

/** The queue that a failed queue belongs to. */
function queueBeside(failedQueue: string): string {
  return failedQueue.slice(0, -failedQueueOf('').length)
}
