import type { Bus, Finding, QueueStatus, Topology } from '../bus/index.js'
import { discover } from './topology.js'

/** The state of a bus: its queues, and the problems that could lose a message. */
export interface Examination {
  /** The queues, and how many messages wait in each. */
  readonly queues: readonly QueueStatus[]
  /** Problems that can lose a message. */
  readonly findings: readonly Finding[]
  /** Whether the broker listed its queues, so that there are no others. */
  readonly isComplete: boolean
}

/** Examines the queues that the broker lists, and those in `known`. Changes nothing. */
export async function examineBus(bus: Bus, known?: Topology): Promise<Examination> {
  const { topology, isComplete } = await discover(bus, known)
  return { queues: await bus.status(topology), findings: await bus.examine(topology), isComplete }
}
