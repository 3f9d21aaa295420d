import { OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../policy/internal.js'
import type { Store } from '../store/index.js'
import type { ItemCounts, RunStatus } from '../store/internal.js'
import type { TaskDefinition, WorkerOptions } from '../task/index.js'
import type { Source } from './source.js'

/** Options of `resume()`. Settings that are not named stay as they are. @inline */
export interface ResumeOptions<In> extends LiveOptions, WorkOptions {
  /** Where to read on. It is continued at the run's cursor, or skipped to its position. Default: only items taken so far. */
  readonly source?: Source<In>
  /** The same function that the run was started with, if it was. */
  readonly itemId?: (item: In, position: number) => string
}

/** Options of a run that can be changed while it runs. @inline */
export interface LiveOptions {
  /** The share of dead items, of those that have ended, above which the run stops. 1: never. Default 0.1. */
  readonly failureBudget?: number
  /** Budgets of single stages: the share of dead items, of those that have left the stage. Default: none. */
  readonly stageBudgets?: Readonly<Record<string, number>>
  /** The budget is checked each time that this many more items have ended. Default 1000. */
  readonly checkInterval?: number
  /** Count only the items that ended within this many last ones. Default: all. */
  readonly budgetWindow?: number
  /** The success rates from which an ended run is `completed` (0.95) or a `partial_success` (0.5). Below, it has `failed`. */
  readonly thresholds?: { readonly completed?: number; readonly partial?: number }
  /** The source is read on only while fewer items than this are waiting or running. Default 10 000. */
  readonly maxUnfinished?: number
  /** How many items of a stage, or calls of a batch stage, each process works on at once. Default: as the stages say. */
  readonly concurrency?: Readonly<Record<string, number>>
}

/** Options of `run()` and `start()`. */
export interface RunOptions<In> extends LiveOptions, WorkOptions {
  /** The id of the run: letters, digits and _.- (at most 100). Default: generated. */
  readonly id?: string
  /** Your own id for each item. A second item with the same id is counted as a duplicate. Default: its position. */
  readonly itemId?: (item: In, position: number) => string
  /** A task to enqueue, in the transaction that ends the run. Its payload is a `RunEnd`. */
  readonly onEnd?: OnEnd
  /** Keeps the results of succeeded items listed until they have been written out: see `openResultLog` of `redrive/operate`. */
  readonly hasOutput?: boolean
  /** Notes to keep with the run, as plain data. */
  readonly about?: unknown
}

/** The store, and the worker that a run brings along. */
export interface WorkOptions
  extends Pick<WorkerOptions, 'name' | 'release' | 'lease' | 'grace' | 'classify' | 'sink' | 'onOutage' | 'clock'> {
  /** Keeps the run and its items. */
  readonly store: Store
}

/** The task that follows the end of a run. */
export interface OnEnd {
  /** A task, as `defineTask()` returns it. */
  readonly task: Pick<TaskDefinition<RunEnd>, 'kind' | 'handler'> & Partial<Pick<TaskDefinition, 'codec' | 'uniqueOf'>>
  /** The category of the task. Default: none. */
  readonly category?: string
  /** The key of its lane. Default: none. */
  readonly key?: string
  /** Goes with it, as plain data. */
  readonly payload?: unknown
}

/** The payload of the task that follows the end of a run. */
export interface RunEnd {
  /** The id of the run. */
  readonly run: string
  /** How it ended. */
  readonly status: RunStatus
  /** Its items by status. */
  readonly counts: ItemCounts
  /** The payload given with `onEnd`. */
  readonly payload?: unknown
}

const LIVE_OPTIONS: KnownOptions<LiveOptions> = {
  failureBudget: '',
  stageBudgets: 'object',
  checkInterval: '',
  budgetWindow: '',
  thresholds: 'object',
  maxUnfinished: '',
  concurrency: 'object',
}

const WORK_OPTIONS: KnownOptions<WorkOptions> = {
  store: '',
  name: '',
  release: '',
  lease: '',
  grace: '',
  classify: 'function',
  sink: 'function',
  onOutage: 'function',
  clock: 'object',
}

const RESUME_OPTIONS: KnownOptions<ResumeOptions<unknown>> = {
  ...LIVE_OPTIONS,
  ...WORK_OPTIONS,
  source: 'object',
  itemId: 'function',
}

const RUN_OPTIONS: KnownOptions<RunOptions<unknown>> = {
  ...LIVE_OPTIONS,
  ...WORK_OPTIONS,
  id: '',
  itemId: 'function',
  onEnd: 'object',
  hasOutput: '',
  about: '',
}

/** Refuses options of `start()` and `run()` that are unknown or of the wrong type. */
export function checkRunOptions(options: object): void {
  checkOptions('A run', options, RUN_OPTIONS)
}

/** Refuses options of `resume()` that are unknown or of the wrong type. */
export function checkResumeOptions(options: object): void {
  checkOptions('resume()', options, RESUME_OPTIONS)
}

/** Refuses changes of a run that are unknown or of the wrong type. */
export function checkLiveOptions(options: object): void {
  checkOptions('change()', options, LIVE_OPTIONS)
}

/** Refuses settings of stages that the pipeline does not have, and that the run was not opened with either. */
export function checkStageNames(
  { concurrency = {}, stageBudgets = {} }: LiveOptions,
  pipeline: string,
  stages: readonly string[],
  earlier: readonly string[] = [],
): void {
  for (const [option, byStage] of Object.entries({ concurrency, stageBudgets })) {
    const unknown = Object.keys(byStage).find(name => !stages.includes(name) && !earlier.includes(name))
    if (unknown === undefined) continue
    const problem = `'${option}' names ${quoted(unknown)}, and the pipeline '${pipeline}' has no such stage.`
    throw new OptionError(option, `${problem} Its stages: ${stages.join(', ')}.`)
  }
}
