import type { Store } from '../store/index.js'
import { contractOf, type WorkerRecord } from '../store/internal.js'
import { isoOrNull } from './task-view.js'

/** A worker whose lease has not expired, as plain JSON. `null` where it did not report a value. */
export interface WorkerView {
  /** The name of the worker. */
  readonly name: string
  /** When it started, as ISO 8601 text in UTC. */
  readonly since: string | null
  /** When its last heartbeat arrived. */
  readonly beatAt: string | null
  /** When its lease ends, unless it renews it. */
  readonly until: string
  /** The version of the application whose code it runs. */
  readonly release: string | null
  /** The kinds of tasks that it runs. */
  readonly kinds: readonly string[] | null
  /** The categories that it runs; `null`: all of them. */
  readonly categories: readonly string[] | null
  /** Whether it claims nothing, until its own code lets it go on. */
  readonly isPaused: boolean
  /** The machine that it runs on. */
  readonly host: string | null
  /** The ids of its tasks whose handlers go on although they timed out or were cancelled, the first 100 of them. */
  readonly overruns: readonly string[]
}

/** Lists the workers whose lease has not expired, by name. */
export async function listWorkers(store: Store): Promise<WorkerView[]> {
  return (await contractOf(store).workers()).map(workerView)
}

function workerView({
  name,
  since,
  beatAt,
  until,
  release,
  kinds,
  categories,
  isPaused = false,
  host,
  overruns = [],
}: WorkerRecord): WorkerView {
  return {
    name,
    since: isoOrNull(since),
    beatAt: isoOrNull(beatAt),
    until: new Date(until).toISOString(),
    release: release ?? null,
    kinds: kinds ?? null,
    categories: categories ?? null,
    isPaused,
    host: host ?? null,
    overruns,
  }
}
