import { type Bus, isFailedQueue, type Topology } from '../bus/index.js'

/** The known queues of a bus. */
export interface Discovery {
  readonly topology: Topology
  /** The names of the failed queues that the broker listed. */
  readonly failedQueues: readonly string[]
  /** Whether the broker listed its queues, so that there are no others. */
  readonly isComplete: boolean
}

/** Merges the queues that the broker lists with those that the caller knows. */
export async function discover(bus: Bus, known: Topology = {}): Promise<Discovery> {
  const listed = await bus.discover()
  const found = listed ?? []
  const declared = found.flatMap(({ name, type }) => (type === undefined ? [] : [[name, type] as const]))
  return {
    topology: { ...Object.fromEntries(declared.sort()), ...known },
    failedQueues: found.map(({ name }) => name).filter(isFailedQueue),
    isComplete: listed !== undefined,
  }
}

/** The type that a queue takes, if it is known. */
export function typeOf(queue: string, topology: Topology): string | undefined {
  return Object.hasOwn(topology, queue) ? topology[queue] : undefined
}

/** The number of messages in each of these queues and in its failed queue. Queues that do not exist are left out. */
export async function messageCounts(
  bus: Bus,
  queues: readonly string[],
  topology: Topology,
): Promise<ReadonlyMap<string, number>> {
  // A broker finds a queue by its name alone, so any text does for a type that is not known.
  const asked = queues.map(queue => [queue, typeOf(queue, topology) ?? queue] as const)
  const statuses = await bus.status(Object.fromEntries(asked))
  return new Map(statuses.flatMap(({ name, messages }) => (messages === undefined ? [] : [[name, messages] as const])))
}
