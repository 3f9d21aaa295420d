import type { TaskFilter } from '../../../store/index.js'
import type { StoreContract } from '../../../store/internal.js'
import { quoted } from '../../terminal/visible.js'

const MAX_KINDS = 20

/** The kinds of the tasks of a store, or of its dead letters. */
type KindReader = Pick<StoreContract, 'countBy'>

/**
 * Says that a list is empty: `No tasks.`, or that none match a filter. If the filter names a kind that is not there, it may
 * be misspelt, so it says which kinds are.
 */
export async function noMatch(
  store: KindReader,
  what: string,
  { status, ...filter }: Partial<TaskFilter>,
): Promise<string> {
  const counts = await store.countBy(status === 'dead' ? { status } : {}, ['kind'])
  const kinds = counts.flatMap(({ kind }) => kind ?? []).sort()
  const isFiltered = Object.values(filter).some(value => value !== undefined)
  if (!isFiltered || kinds.length === 0) return `No ${what}.`
  if (filter.kind === undefined || kinds.includes(filter.kind)) return `No ${what} match.`
  const counted = status === 'dead' ? 'dead letters' : 'tasks'
  const none = `There are no ${counted} of the kind ${quoted(filter.kind)}, only of: ${namesText(kinds)}`
  return what === counted ? none : `No ${what} match. ${none}`
}

/** Says which kinds a store has, if this one is not among them and no live worker has it; `undefined` if it is there. */
export async function unknownKind(
  store: KindReader & Pick<StoreContract, 'workers'>,
  kind: string,
): Promise<string | undefined> {
  const [counts, workers] = await Promise.all([store.countBy({}, ['kind']), store.workers()])
  const running = workers.flatMap(({ kinds = [] }) => kinds)
  const names = [...new Set([...counts.flatMap(({ kind }) => kind ?? []), ...running])].sort()
  if (names.includes(kind)) return undefined
  const there = names.length === 0 ? '' : ` There are: ${namesText(names)}`
  return `No task and no live worker has the kind ${quoted(kind)}: check the spelling.${there}`
}

function namesText(names: readonly string[]): string {
  return `${names.slice(0, MAX_KINDS).join(', ')}${names.length > MAX_KINDS ? ' …' : '.'}`
}
