import { type Bus, failedQueueOf, isFailedQueue, type Message, type Topology } from '../../bus/index.js'
import { presets } from '../../presets/index.js'
import { CommandError } from '../errors.js'

/** The event type that each known failed queue goes back to, where no queue stands beside it. */
const ROUTES: Readonly<Record<string, string>> = presets.documents.routes

/** Where a message that is requeued goes: into one queue, whose type may not be known, or to all that take a type. */
export type Route =
  | { readonly queue: string; readonly type: string | undefined }
  | { readonly queue: undefined; readonly type: string }

/** A failed queue that is there. */
export interface FailedQueue {
  readonly name: string
  readonly messages: number
  /** `undefined`: nobody knows where its messages came from. */
  readonly route: Route | undefined
}

/** What is known of the queues of a bus. */
export interface Survey {
  readonly topology: Topology
  /** The names of failed queues that may be there. */
  readonly failedQueues: readonly string[]
  /** The broker told of its queues, so that these are all. */
  readonly isComplete: boolean
}

/** What the broker tells of its queues, and what is known besides. */
export async function survey(bus: Bus, given: Topology = {}): Promise<Survey> {
  const discovered = await bus.discover()
  const found = discovered ?? []
  const declared = found.flatMap(({ name, type }) => (type === undefined ? [] : [[name, type] as const]))
  const topology: Topology = { ...Object.fromEntries(declared.sort()), ...given }
  const failed = found.map(({ name }) => name).filter(isFailedQueue)
  const names = new Set([...Object.keys(topology).map(failedQueueOf), ...failed, ...Object.keys(ROUTES)])
  return { topology, failedQueues: [...names].sort(), isComplete: discovered !== undefined }
}

/** Those of the failed queues that are there. */
export async function lookAt(bus: Bus, names: readonly string[], topology: Topology): Promise<FailedQueue[]> {
  const asked = names.map(name => [queueOf(name), typeOf(queueOf(name), topology)] as const)
  const statuses = await bus.status(Object.fromEntries(asked))
  const counts = new Map(statuses.map(({ name, messages }) => [name, messages]))
  return names.flatMap(name => {
    const messages = counts.get(name)
    const isBesideItsQueue = counts.get(queueOf(name)) !== undefined
    return messages === undefined ? [] : [{ name, messages, route: routeOf(name, topology, isBesideItsQueue) }]
  })
}

/** A failed queue by its name. */
export async function findFailedQueue(bus: Bus, name: string, given?: Topology): Promise<FailedQueue> {
  if (!isFailedQueue(name)) {
    throw new CommandError(`'${name}' is no failed queue: did you mean '${failedQueueOf(name)}'?`)
  }
  const [found] = await lookAt(bus, [name], (await survey(bus, given)).topology)
  if (found === undefined) {
    throw new CommandError(`There is no failed queue '${name}'. To see which there are: redrive queue list`)
  }
  return found
}

/** The route into a queue that was named. */
export async function routeInto(bus: Bus, queue: string, given?: Topology): Promise<Route> {
  if (isFailedQueue(queue)) throw new CommandError(`'${queue}' is a failed queue: nobody consumes it. 0 requeued.`)
  const { topology } = await survey(bus, given)
  const [status] = await bus.status({ [queue]: typeOf(queue, topology) })
  if (status?.messages === undefined) throw new CommandError(`There is no queue '${queue}'. 0 requeued.`)
  return { queue, type: topology[queue] }
}

/** The type that a message has on its route. One that came without a type has the name of the queue that it is in. */
export function typeOnRoute({ queue, type }: Route, message: Message): string {
  if (queue === undefined) return type
  return type ?? (isFailedQueue(message.type) ? queue : message.type)
}

/** A route in words. */
export function routeText({ queue, type }: Route): string {
  return queue === undefined ? `all that take '${type}'` : `'${queue}'`
}

/** A route as JSON. */
export function routeJson(route: Route | undefined): object | null {
  return route === undefined ? null : { queue: route.queue ?? null, type: route.type ?? null }
}

/** Only its own queue has failed on it: others that take the same type need not see it again. */
function routeOf(failedQueue: string, topology: Topology, isBesideItsQueue: boolean): Route | undefined {
  const queue = queueOf(failedQueue)
  if (isBesideItsQueue) return { queue, type: topology[queue] }
  const type = ROUTES[failedQueue]
  return type === undefined ? undefined : { queue: undefined, type }
}

/** The queue that a failed queue stands beside. */
function queueOf(failedQueue: string): string {
  return failedQueue.slice(0, -failedQueueOf('').length)
}

/** Its type, as far as it is known; where it is not, the broker does not need it to find the queue. */
function typeOf(queue: string, topology: Topology): string {
  return topology[queue] ?? queue
}
