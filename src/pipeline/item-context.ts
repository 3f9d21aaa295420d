import type { ActiveAttempt } from '../attempt/index.js'
import type { ClaimedTask, Cost, OnceOptions, Store } from '../store/index.js'
import type { AttemptRecorder } from '../task/internal.js'
import type { StageContext } from './stage-context.js'

/** One attempt at an item, as the code of its stage sees it. */
export class ItemContext implements StageContext {
  readonly id: string
  readonly run: string
  readonly stage: string
  readonly attempt: number
  readonly #task: ClaimedTask
  readonly #attempt: ActiveAttempt
  readonly #recorder: AttemptRecorder
  readonly #store: Pick<Store, 'once'>

  constructor(task: ClaimedTask, attempt: ActiveAttempt, recorder: AttemptRecorder, store: Pick<Store, 'once'>) {
    this.id = ownId(task)
    this.run = task.key
    this.stage = task.category
    this.attempt = attempt.number
    this.#task = task
    this.#attempt = attempt
    this.#recorder = recorder
    this.#store = store
  }

  get signal(): AbortSignal {
    return this.#attempt.signal
  }

  once<T>(key: string, work: (tx: never) => T, { params }: Pick<OnceOptions, 'params'> = {}): Promise<Awaited<T>> {
    const { id, token } = this.#task
    return this.#store.once(key, work, { params, fence: { id, token } })
  }

  used(cost: Cost): void {
    this.#recorder.used(cost)
  }
}

/** The id of an item within its run: the tasks of a run are named `<run>:<id>`. */
export function ownId({ id, key }: Pick<ClaimedTask, 'id' | 'key'>): string {
  return id.slice(key.length + 1)
}
