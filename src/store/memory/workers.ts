import type { Clock } from '../../time/index.js'
import type { MemoryTask } from './task.js'

interface MemoryWorker {
  /** On the monotonic clock: a lease is a measured time. */
  leaseUntil: number
  readonly tasks: Set<MemoryTask>
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
    if (known === undefined) this.#workers.set(name, { leaseUntil, tasks: new Set() })
    else known.leaseUntil = leaseUntil
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

  /** The number of workers whose lease has not expired. */
  get live(): number {
    return this.#workers.size - this.expired().length
  }

  /** The workers whose lease has expired. */
  expired(): string[] {
    const now = this.#clock.monotonic()
    return [...this.#workers].filter(([, { leaseUntil }]) => leaseUntil <= now).map(([name]) => name)
  }
}
