import {
  type DrainOptions,
  type DrainResult,
  Engine,
  type EngineSettings,
  type WorkSource,
} from '../engine/internal.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { Store } from '../store/index.js'
import { contractOf } from '../store/internal.js'
import { type DeclaredSchedule, declareSchedules } from './declare-schedules.js'
import type { AnyDefinition } from './define-task.js'
import { taskKind } from './task-kind.js'

/** Options of a worker. */
export interface WorkerOptions extends EngineSettings {
  /** The tasks that it runs. Other kinds are left to other workers. */
  readonly tasks?: readonly AnyDefinition[] | undefined
  /** The pipelines whose items it works on, in all of their runs. It reads no sources. Made by `pipeline()`. */
  readonly pipelines?: readonly WorkSource[] | undefined
  /**
   * Schedules that it declares when it starts. Made by `schedule()`. Every worker fires all schedules of its store, whoever
   * has declared them; the tasks are run by the workers that have them.
   */
  readonly schedules?: readonly DeclaredSchedule[] | undefined
}

const WORKER_OPTIONS: KnownOptions<WorkerOptions> = {
  tasks: 'object',
  pipelines: 'object',
  schedules: 'object',
  concurrency: '',
  reserve: 'object',
  categories: 'object',
  lease: '',
  grace: '',
  retention: 'object',
  name: '',
  release: '',
  classify: 'function',
  sink: 'function',
  onOutage: 'function',
  clock: 'object',
}

/**
 * Runs the tasks of a store.
 *
 * ```ts
 * const worker = new Worker(store, { tasks: [sendEmail], concurrency: 20 })
 * await worker.start()
 * process.once('SIGTERM', () => worker.stop())
 * ```
 */
export class Worker {
  readonly #engine: Engine
  readonly #declare: () => Promise<void>

  constructor(store: Store, { tasks = [], pipelines = [], schedules = [], ...options }: WorkerOptions) {
    checkOptions('A worker', options, WORKER_OPTIONS)
    const contract = contractOf(store)
    const kinds = [...new Set(tasks)].map(task => taskKind(task, contract, options))
    const stages = [...new Set(pipelines)].flatMap(pipeline => pipeline.kinds(contract, options))
    this.#engine = new Engine(contract, [...kinds, ...stages], options)
    this.#declare = () => declareSchedules(contract.schedules, schedules, this.#engine)
  }

  /** Its name on record. */
  get name(): string {
    return this.#engine.name
  }

  /**
   * How many tasks it runs at once. Assign to it to change that: a lower number lets tasks end that run. Stages of pipelines,
   * and tasks that are called together, keep the concurrency of their code.
   */
  get concurrency(): number {
    return this.#engine.concurrency
  }

  set concurrency(concurrency: number) {
    this.#engine.concurrency = concurrency
  }

  /** Whether it is paused. */
  get isPaused(): boolean {
    return this.#engine.isPaused
  }

  /**
   * Starts no more tasks until `resume()`. Running tasks go on, and other workers take the rest. `redrive worker ls` and `why`
   * show it. To pause work on all machines, pause its lanes: `store.pause`.
   */
  pause(): void {
    this.#engine.isPaused = true
  }

  /** Lets it claim tasks again after `pause()`. */
  resume(): void {
    this.#engine.isPaused = false
  }

  /** How many settlements came too late, because another worker had taken the task by then. */
  get stale(): number {
    return this.#engine.stale
  }

  /**
   * Resolves when it has stopped. Rejects if it cannot go on because the store refuses for good, as a damaged one does.
   * Like every unhandled rejection, that ends the process unless it is handled.
   */
  get stopped(): Promise<void> {
    return this.#engine.stopped
  }

  /**
   * Starts the worker. Resolves when it is ready. Rejects if the store cannot be reached, and may then be called again.
   * Rejects if the worker was stopped.
   */
  async start(): Promise<void> {
    await this.#declare()
    await this.#engine.start()
  }

  /**
   * Runs what is due, and stops: for serverless functions, and for the cron of another system. In place of `start()`, once for
   * each worker. It ends when nothing is due any more, at the deadline, or when it has claimed `max` tasks, and leaves the
   * worker stopped. It waits for tasks that are running; after the deadline, for the grace period.
   *
   * ```ts
   * const { ran, failed, ended } = await new Worker(store, { tasks }).drain({ deadline: '50s' })
   * ```
   *
   * Due is what a worker could start now or within a second. Retries and new tasks that become due meanwhile are run too.
   * Tasks that are due later, paused, or held by a rate limit or a budget are left to the next drain.
   */
  async drain(options: DrainOptions = {}): Promise<DrainResult> {
    await this.#declare()
    return this.#engine.drain(options)
  }

  /** Stops claiming, lets running tasks end within the grace period, and hands the rest back. */
  stop(): Promise<void> {
    return this.#engine.stop()
  }
}
