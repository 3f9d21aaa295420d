import { OptionError } from '../policy/index.js'
import type { TaskFilter } from '../store/index.js'
import type { StoreContract } from '../store/internal.js'
import { filterOf, type LetterSelection } from './selection.js'

/** The steps of this many letters are looked at. More of them are not checked. */
const MAX_LOOKED_AT = 100

/** Refuses a step that none of the letters has: a misspelled name would forget nothing. */
export async function checkStep(
  store: Pick<StoreContract, 'list' | 'steps'>,
  selection: LetterSelection,
  step: string,
): Promise<void> {
  const ids = 'ids' in selection ? selection.ids : await idsOf(store, filterOf(selection))
  if (ids.length === 0 || ids.length > MAX_LOOKED_AT) return
  const known = new Set<string>()
  for (const id of ids) for (const { name } of await store.steps(id)) known.add(name)
  if (known.has(step)) return
  const names = [...known].map(name => `'${name}'`).join(', ')
  const advice = known.size === 0 ? 'They have no steps on record.' : `Their steps on record: ${names}.`
  throw new OptionError('step', `None of these dead letters has a step '${step}'. ${advice} 0 moved.`)
}

/** The ids of all letters that match; none if there are too many to look at. */
async function idsOf(store: Pick<StoreContract, 'list'>, filter: TaskFilter): Promise<readonly string[]> {
  const { items, next } = await store.list(filter, { limit: MAX_LOOKED_AT })
  return next === undefined ? items.map(({ id }) => id) : []
}
