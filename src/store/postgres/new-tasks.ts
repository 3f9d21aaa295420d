import { OptionError } from '../../policy/index.js'
import type { Lane, NewTask } from '../store.js'
import { triedForMs } from '../tried-for.js'
import { column, evenColumn } from './column.js'
import { outcomeRow } from './settlements.js'
import { isStorable } from './text.js'

/** Tasks to be added, and how the function `enqueue` takes them. */
export interface NewRows {
  readonly ids: readonly string[]
  readonly values: readonly (string | null)[]
}

/** A task's first round is any of so many, as the function `first_round` has it too. */
const FIRST_ROUNDS = 1_000_000_000

/** Gives each task its id, and names each lane once. */
export function newRows(tasks: readonly NewTask[], makeId: () => string): NewRows {
  const lanes = new Map<string, Lane & { readonly n: number }>()
  /** What became of the attempts that were made elsewhere. */
  const tried: object[] = []
  const rows = tasks.map((task, n) => {
    const { id = makeId(), kind, category = '', key = '', payload } = task
    const name = `${kind}\0${category}\0${key}`
    let lane = lanes.get(name)
    if (lane === undefined) {
      checkTexts({ kind, category, key })
      lane = { n: lanes.size + 1, kind, category, key }
      lanes.set(name, lane)
    }
    checkTexts({ id, payload })
    if (task.tried === undefined) return { id, lane: lane.n }
    const round = Math.floor(Math.random() * FIRST_ROUNDS)
    tried.push(outcomeRow({ id, ...task.tried }, round, n))
    return { id, lane: lane.n, round }
  })
  const ids = rows.map(({ id }) => id)
  return {
    ids,
    values: [
      JSON.stringify([...lanes.values()]),
      column(ids, id => id),
      evenColumn(rows, ({ lane }) => lane),
      column(tasks, ({ priority }) => priority),
      column(tasks, ({ submittedAt }) => submittedAt && Math.floor(submittedAt)),
      column(tasks, ({ runAt }) => runAt && Math.ceil(runAt)),
      column(tasks, ({ payload }) => payload),
      column(rows, ({ round }) => round),
      column(tasks, task => task.tried && triedForMs(task)),
      tried.length === 0 ? null : JSON.stringify(tried),
    ],
  }
}

/** What tasks are found by is stored as it is, or not at all. */
function checkTexts(texts: Readonly<Record<string, string>>): void {
  for (const [option, text] of Object.entries(texts)) {
    if (isStorable(text)) continue
    const shown = JSON.stringify(text.slice(0, 60))
    throw new OptionError(option, `'${option}' has a character that PostgreSQL cannot store, got ${shown}.`)
  }
}
