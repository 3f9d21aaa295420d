import { OptionError } from '../../policy/index.js'
import type { Lane, NewTask } from '../store.js'
import { triedForMs } from '../tried-for.js'
import { outcomeRow } from './settlements.js'
import { isStorable } from './text.js'

/** Tasks as the function `enqueue` takes them. */
export interface NewRows {
  readonly lanes: readonly object[]
  readonly tasks: readonly { readonly id: string }[]
  /** What became of the attempts that were made elsewhere. */
  readonly tried: readonly object[]
}

/** Gives each task its id, and names each lane once. */
export function newRows(tasks: readonly NewTask[], makeId: () => string): NewRows {
  const lanes = new Map<string, Lane & { readonly n: number }>()
  const tried: object[] = []
  const rows = tasks.map(({ id = makeId(), kind, category = '', key = '', payload, priority = 0, ...task }, n) => {
    const name = `${kind}\0${category}\0${key}`
    const lane = lanes.get(name) ?? { n: lanes.size, kind, category, key }
    lanes.set(name, lane)
    for (const [option, text] of Object.entries({ id, kind, category, key, payload })) checkText(option, text)
    const token = task.tried && crypto.randomUUID()
    if (task.tried !== undefined) tried.push(outcomeRow({ id, token: String(token), ...task.tried }, n))
    return {
      id,
      lane: lane.n,
      priority,
      submitted_at: task.submittedAt === undefined ? undefined : Math.floor(task.submittedAt),
      run_at: task.runAt === undefined ? undefined : Math.ceil(task.runAt),
      payload,
      token,
      tried_ms: triedForMs(task),
    }
  })
  return { lanes: [...lanes.values()], tasks: rows, tried }
}

/** What tasks are found by is stored as it is, or not at all. */
function checkText(option: string, text: string): void {
  if (isStorable(text)) return
  const shown = JSON.stringify(text.slice(0, 60))
  throw new OptionError(option, `'${option}' has a character that PostgreSQL cannot store, got ${shown}.`)
}
