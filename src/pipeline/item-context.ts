import type { ActiveAttempt } from '../attempt/index.js'
import type { ClaimedTask, Store } from '../store/index.js'
import type { AttemptRecorder } from '../task/internal.js'
import type { StageContext } from './stage-context.js'
import { validCost } from './valid-cost.js'

/** One attempt at an item, as the code of its stage sees it. */
export function itemContext(
  task: ClaimedTask,
  attempt: ActiveAttempt,
  recorder: AttemptRecorder,
  store: Pick<Store, 'once'>,
): StageContext {
  const { id, token, key: run, category: stage } = task
  return {
    id: ownId(task),
    run,
    stage,
    attempt: attempt.number,
    // A signal costs more than everything else here, so it is made when the code first reads it.
    get signal() {
      return attempt.signal
    },
    once: (key, work, { params } = {}) => store.once(key, work, { params, fence: { id, token } }),
    used: cost => recorder.used(validCost(cost, { from: 'used()', stage })),
  }
}

/** The id of an item within its run: the tasks of a run are named `<run>:<id>`. */
export function ownId({ id, key }: Pick<ClaimedTask, 'id' | 'key'>): string {
  return id.slice(key.length + 1)
}
