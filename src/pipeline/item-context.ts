import type { ActiveAttempt } from '../attempt/index.js'
import type { ClaimedTask, Store } from '../store/index.js'
import type { AttemptRecorder } from '../task/internal.js'
import type { StageContext } from './stage-context.js'
import { validCost } from './valid-cost.js'

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

  // Getters, so that `{ signal, once, used }` can be taken apart, and most items need no closure.

  get once(): StageContext['once'] {
    const { id, token } = this.#task
    const store = this.#store
    return (key, work, { params } = {}) => store.once(key, work, { params, fence: { id, token } })
  }

  get used(): StageContext['used'] {
    const recorder = this.#recorder
    const origin = { from: 'used()', stage: this.stage } as const
    return cost => recorder.used(validCost(cost, origin))
  }
}

/** The id of an item within its run: the tasks of a run are named `<run>:<id>`. */
export function ownId({ id, key }: Pick<ClaimedTask, 'id' | 'key'>): string {
  return id.slice(key.length + 1)
}
