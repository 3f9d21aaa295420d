import type { Store, TaskStatus } from '../store/index.js'
import { contractOf } from '../store/internal.js'
import { type GatedStats, openGates, withGated } from './gates.js'
import { type UnattendedTasks, unattended } from './unattended.js'

/** The tasks of a kind, in figures. */
export interface KindFigures extends Readonly<Record<TaskStatus, number>> {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** Of those that wait: tasks that could start now, had a worker a free slot. About 10 000 are counted at most. */
  readonly ready: number
  /** When the task that has been ready for longest became due, as ISO 8601 text; `null` if none is ready. */
  readonly readySince: string | null
  /** Of those that wait: tasks that are due, but behind others in an ordered lane, or beyond a concurrency or a rate. */
  readonly limited: number
  /** Of those that wait: tasks in paused lanes. */
  readonly paused: number
  /** Of those that wait: tasks in lanes that are held by a rate limit, or by the head of an ordered lane, which may be a dead letter. */
  readonly held: number
  /** Of those that wait: tasks that the gate of a failure budget keeps back. */
  readonly gated: number
  /** Of those that wait: retries that are due and held by their retry budget. About 10 000 are counted at most. */
  readonly budgeted: number
}

/** A store at a glance, as plain JSON. */
export interface StoreFigures {
  /** Workers whose lease has not expired. */
  readonly workers: number
  /** In the order of their names. */
  readonly kinds: readonly KindFigures[]
  /** Waiting tasks that no live worker runs, and that end with their time to live. */
  readonly unattended: readonly UnattendedTasks[]
}

const NONE = { waiting: 0, running: 0, succeeded: 0, skipped: 0, dead: 0, cancelled: 0 }

/** Counts the tasks of a store by kind and status. The cost depends on the number of lanes, not of tasks. */
export async function storeFigures(store: Store): Promise<StoreFigures> {
  const contract = contractOf(store)
  const [{ workers, kinds: counted }, gates, counts] = await Promise.all([
    contract.stats(),
    openGates(contract),
    contract.countBy({}, ['kind', 'status']),
  ])
  const kinds = withGated(counted, gates)
  const byKind = new Map<string, Record<TaskStatus, number>>()
  for (const { kind = '', status, count } of counts) {
    if (status !== undefined) byKind.set(kind, { ...(byKind.get(kind) ?? NONE), [status]: count })
  }
  const names = [...new Set([...byKind.keys(), ...kinds.map(({ kind }) => kind)])].sort()
  return {
    workers,
    unattended: await unattended(contract, counted),
    kinds: names.map(kind => {
      const parts = kinds.filter(part => part.kind === kind)
      const sum = (status: 'waiting' | 'running' | 'dead') => parts.reduce((total, part) => total + part[status], 0)
      // From the same moment as the figures below: the other counts are read by themselves.
      const open = { waiting: sum('waiting'), running: sum('running'), dead: sum('dead') }
      return { kind, ...(byKind.get(kind) ?? NONE), ...open, ...queued(parts) }
    }),
  }
}

/** The waiting tasks of a kind, over its categories. */
function queued(parts: readonly GatedStats[]): Omit<KindFigures, 'kind' | TaskStatus> {
  const sum = (count: (part: GatedStats) => number) => parts.reduce((total, part) => total + count(part), 0)
  const since = Math.min(...parts.map(({ readySince = Infinity }) => readySince))
  return {
    ready: sum(({ ready }) => ready),
    readySince: Number.isFinite(since) ? new Date(since).toISOString() : null,
    limited: sum(({ limited }) => limited),
    paused: sum(({ paused }) => paused),
    held: sum(({ held }) => held),
    gated: sum(({ gated }) => gated),
    budgeted: sum(({ budgeted }) => budgeted),
  }
}
