import type { ActiveAttempt } from '../attempt/index.js'
import { type AttemptRecorder, type StepOptions, type StepWork, validCost } from '../engine/internal.js'
import type { ClaimedTask, OnceOptions, Storable, StoreContract } from '../store/internal.js'
import type { KeptAsJson } from '../task/internal.js'
import type { StageContext } from './stage-context.js'

/** One attempt at an item, as the code of its stage sees it. */
export function itemContext(
  task: ClaimedTask,
  attempt: ActiveAttempt,
  recorder: AttemptRecorder,
  store: Pick<StoreContract, 'once'>,
): StageContext {
  return new ItemContext(task, attempt, recorder, store)
}

/** Made for every attempt, in the way of a task's `AttemptContext`: as an object with a getter it takes three times as long. */
class ItemContext implements StageContext {
  /** A signal costs more than everything else here, so it is made when the code first reads it. */
  static readonly #SIGNAL: PropertyDescriptor & ThisType<ItemContext> = {
    enumerable: true,
    configurable: true,
    get() {
      return this.#attempt.signal
    },
  }

  declare readonly id: string
  declare readonly run: string
  declare readonly stage: string
  declare readonly attempt: number
  declare readonly signal: AbortSignal
  declare readonly once: StageContext['once']
  declare readonly step: StageContext['step']
  declare readonly progress: StageContext['progress']
  declare readonly log: StageContext['log']
  declare readonly used: StageContext['used']
  readonly #attempt: ActiveAttempt

  constructor(
    task: ClaimedTask,
    attempt: ActiveAttempt,
    recorder: AttemptRecorder,
    store: Pick<StoreContract, 'once'>,
  ) {
    const { id, token, key: run, category: stage } = task
    this.id = ownId(task)
    this.run = run
    this.stage = stage
    this.attempt = attempt.number
    this.once = <T>(key: string, work: (tx: never) => T & Storable<T>, { params }: Pick<OnceOptions, 'params'> = {}) =>
      store.once<T>(key, work, { params, fence: { id, token } })
    // The result comes from JSON: the function's own, or that of an earlier attempt.
    this.step = <T>(name: string, work: StepWork<T>, options?: StepOptions) =>
      recorder.step(name, work, options) as Promise<KeptAsJson<T>>
    this.progress = (fraction, text) => recorder.progress(fraction, text)
    this.log = text => recorder.log(text)
    this.used = cost => recorder.used(validCost(cost, { from: 'used()', stage }))
    this.#attempt = attempt
    Object.defineProperty(this, 'signal', ItemContext.#SIGNAL)
  }
}

/** The id of an item within its run: the tasks of a run are named `<run>:<id>`. */
export function ownId({ id, key }: Pick<ClaimedTask, 'id' | 'key'>): string {
  return id.slice(key.length + 1)
}
