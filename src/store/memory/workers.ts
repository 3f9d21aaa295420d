import type { Clock } from '../../time/index.js'
import type { WorkerRecord, WorkerReport } from '../contract/worker-store.js'
import type { MemoryTask } from './task.js'

interface MemoryWorker {
  /** On the monotonic clock: a lease is a measured time. */
  leaseUntil: number
  readonly tasks: Set<MemoryTask>
  report: WorkerReport & { readonly since?: number; readonly beatAt?: number }
}

/** The workers with their leases, and the tasks that each of them runs. */
export class MemoryWorkers {
  readonly #clock: Clock
  readonly #workers = new Map<string, MemoryWorker>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  renew(name: string, leaseMs: number): void {
    const leaseUntil = this.#clock.monotonic() + leaseMs
    const known = this.#workers.get(name)
    if (known === undefined) this.#workers.set(name, { leaseUntil, tasks: new Set(), report: {} })
    else known.leaseUntil = leaseUntil
  }

  /** Keeps the report of a worker that has a lease. */
  report(name: string, { release, kinds, categories, isPaused, host, grouping, overruns, notes }: WorkerReport): void {
    const worker = this.#workers.get(name)
    if (worker === undefined) return
    const beatAt = Math.floor(this.#clock.now())
    const { since = beatAt } = worker.report
    const lists = { kinds: copy(kinds), categories: copy(categories), overruns: copy(overruns) }
    worker.report = { release, ...lists, host, grouping, notes, since, beatAt, ...(isPaused && { isPaused }) }
  }

  /** The last report of a worker. */
  reportOf(name: string): WorkerReport {
    return this.#workers.get(name)?.report ?? {}
  }

  /** The end of a worker's lease, on the store's clock. */
  leaseOf(name: string): number | undefined {
    const worker = this.#workers.get(name)
    return worker && this.#until(worker)
  }

  /** The tasks that a worker runs. A copy: tasks may end while it is read. */
  tasksOf(name: string): MemoryTask[] {
    return [...(this.#workers.get(name)?.tasks ?? [])]
  }

  start(name: string, task: MemoryTask): void {
    this.#workers.get(name)?.tasks.add(task)
  }

  end(name: string, task: MemoryTask): void {
    this.#workers.get(name)?.tasks.delete(task)
  }

  remove(name: string): void {
    this.#workers.delete(name)
  }

  /** The workers whose lease has not expired, by name. */
  live(): WorkerRecord[] {
    const monotonic = this.#clock.monotonic()
    return [...this.#workers]
      .filter(([, { leaseUntil }]) => leaseUntil > monotonic)
      .map(([name, worker]) => {
        const { since, beatAt, ...report } = worker.report
        return { name, since, beatAt, until: this.#until(worker), ...report }
      })
      .sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  #until({ leaseUntil }: MemoryWorker): number {
    return Math.floor(this.#clock.now()) + Math.round(leaseUntil - this.#clock.monotonic())
  }

  /** The workers whose lease has expired. */
  expired(): string[] {
    const now = this.#clock.monotonic()
    return [...this.#workers].filter(([, { leaseUntil }]) => leaseUntil <= now).map(([name]) => name)
  }
}

function copy(names: readonly string[] | undefined): readonly string[] | undefined {
  return names && [...names]
}
