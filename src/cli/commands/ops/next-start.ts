import type { TaskView } from '../../../operate/index.js'
import { openGates, stateOf } from '../../../operate/internal.js'
import type { BudgetRecord, Lane, LaneRecord } from '../../../store/index.js'
import type { StoreContract } from '../../../store/internal.js'
import { relative } from '../../terminal/times.js'

/** How many lanes are read at once. */
const AT_ONCE = 50

/** Tells when tasks start, for lists: a task that is due may be in a lane that is paused, gated or held. */
export class NextStarts {
  readonly #store: Pick<StoreContract, 'lanes' | 'budgets'>
  readonly #lanes = new Map<string, LaneRecord | undefined>()
  #gates: readonly BudgetRecord[] | undefined

  constructor(store: Pick<StoreContract, 'lanes' | 'budgets'>) {
    this.#store = store
  }

  /** Looks at the lanes of tasks that are to be told about, each once. A kind may have thousands of others. */
  async look(tasks: readonly (Lane & { readonly status: TaskView['status'] })[]): Promise<void> {
    this.#gates ??= await openGates(this.#store)
    const waiting = tasks.filter(({ status }) => status === 'waiting')
    const unknown = new Map(
      waiting.map(task => [nameOf(task), task] as const).filter(([name]) => !this.#lanes.has(name)),
    )
    const read = async ([name, { kind, category, key }]: readonly [string, Lane]) => {
      const [lane] = await this.#store.lanes({ kind, category, key })
      this.#lanes.set(name, lane)
    }
    const lanes = [...unknown]
    for (let start = 0; start < lanes.length; start += AT_ONCE)
      await Promise.all(lanes.slice(start, start + AT_ONCE).map(read))
  }

  /** `now`, `in 5m`, `paused`, `gated`, `blocked` or `held`; nothing for a task that does not wait. */
  text(task: TaskView, now: number): string {
    if (task.nextAttemptAt === null) return ''
    const lane = this.#lanes.get(nameOf(task))
    const state = lane === undefined ? 'open' : stateOf(lane, this.#gates ?? [])
    if (state === 'paused' || state === 'blocked') return state
    const at = Math.max(Date.parse(task.nextAttemptAt), lane?.heldUntil ?? 0)
    if (at > now) return relative(new Date(at).toISOString(), now)
    if (state === 'gated') return state
    return task.isBudgeted ? 'held' : 'now'
  }
}

function nameOf({ kind, category, key }: Lane): string {
  return JSON.stringify([kind, category, key])
}
