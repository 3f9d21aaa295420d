import type { Outage } from '../attempt/index.js'
import type { Classifier, Duration } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { Store } from '../store/index.js'
import type { Sink } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'
import type { TaskDefinition } from './define-task.js'
import { Engine } from './engine.js'
import type { RetentionOptions } from './janitor.js'
import { taskKind } from './task-kind.js'
import type { WorkSource } from './work-kind.js'

/** Options of a worker. */
export interface WorkerOptions {
  /** The tasks that it runs. Other kinds are left to other workers. */
  readonly tasks?: readonly TaskDefinition[] | undefined
  /** The pipelines whose items it works on, in all of their runs. It reads no sources. Made by `pipeline()`. */
  readonly pipelines?: readonly WorkSource[] | undefined
  /** How many tasks it runs at once. Default 10. The stages of pipelines have a concurrency of their own. */
  readonly concurrency?: number | undefined
  /**
   * Slots of `concurrency` that only tasks of a kind may use, such as `{ 'send-email': 2 }`: however many tasks of other
   * kinds hang, these stay free for it. Default: none.
   */
  readonly reserve?: Readonly<Record<string, number>> | undefined
  /** The categories that it runs. Default: all. */
  readonly categories?: readonly string[] | undefined
  /** How long its tasks stay its own after its last heartbeat. Default 30 s. */
  readonly lease?: Duration | undefined
  /** How long `stop()` waits for running tasks before it hands them back. Default 10 s. */
  readonly grace?: Duration | undefined
  /** How long the store keeps ended work. Default: for ever. */
  readonly retention?: RetentionOptions | undefined
  /** Its name on record. No two workers may share one. Default: generated. */
  readonly name?: string | undefined
  /**
   * The version of your application, for the record of each attempt. Default: the environment variable REDRIVE_RELEASE,
   * or the version in the package.json of the program.
   */
  readonly release?: string | undefined
  /** Code that corrects the verdict on a failure. */
  readonly classify?: Classifier | undefined
  /** Receives the work events of its tasks. */
  readonly sink?: Sink | undefined
  /** Called when the store stops answering, and when it answers again. The worker retries until then. */
  readonly onOutage?: ((outage: Outage) => void) | undefined
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock | undefined
}

const WORKER_OPTIONS: KnownOptions<WorkerOptions> = {
  tasks: 'object',
  pipelines: 'object',
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

  constructor(store: Store, { tasks = [], pipelines = [], ...options }: WorkerOptions) {
    checkOptions('A worker', options, WORKER_OPTIONS)
    const kinds = [...new Set(tasks)].map(task => taskKind(task, store))
    const stages = [...new Set(pipelines)].flatMap(pipeline => pipeline.kinds(store, options))
    this.#engine = new Engine(store, [...kinds, ...stages], options)
  }

  /** Its name on record. */
  get name(): string {
    return this.#engine.name
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
  start(): Promise<void> {
    return this.#engine.start()
  }

  /** Stops claiming, lets running tasks end within the grace period, and hands the rest back. */
  stop(): Promise<void> {
    return this.#engine.stop()
  }
}
