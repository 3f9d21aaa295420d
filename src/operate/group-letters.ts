import { fingerprint } from '../fingerprint/internal.js'
import type { TaskFilter, TaskReader, TaskRecord } from '../store/index.js'
import { pagesOf } from './pages.js'

/** Dead letters of one kind that died of the same failure, but for what varies in its message. */
export interface LetterGroup {
  /** The kind of the tasks. */
  readonly kind: string
  /** The code of the verdict, such as `http_502`. */
  readonly errorCode: string | null
  /** The class of the error; empty where none is on record. */
  readonly errorName: string
  /** Its message, with `*` in the place of ids, numbers and other values. */
  readonly pattern: string
  /** How many dead letters it has. */
  readonly count: number
  /** When the first of them died. */
  readonly firstDiedAt: string
  /** When the last of them died. */
  readonly lastDiedAt: string
  /** The id of the one that died last. */
  readonly example: string
}

/** More groups of a kind than anybody reads: what comes after them is one group. */
const MAX_GROUPS = 1000

type Group = { -readonly [Field in keyof LetterGroup]: LetterGroup[Field] }

/**
 * Groups dead letters by failure, the largest groups first. Messages that differ only in ids, numbers, addresses or
 * quoted values are one group; status codes, SQLSTATEs and the names of columns tell groups apart.
 *
 * ```ts
 * const [most] = await groupLetters(store, { kind: 'charge' })
 * console.log(most?.count, most?.pattern) // 3214 'order * not found'
 * ```
 */
export async function groupLetters(
  store: Pick<TaskReader, 'list'>,
  filter: Omit<TaskFilter, 'status'> = {},
): Promise<LetterGroup[]> {
  const kinds = new Map<string, Map<string, Group>>()
  for await (const letters of pagesOf(page => store.list({ ...filter, status: 'dead' }, page))) {
    for (const letter of letters) {
      const groups = kinds.get(letter.kind) ?? new Map<string, Group>()
      kinds.set(letter.kind, groups)
      add(groups, letter)
    }
  }
  return [...kinds.values()].flatMap(groups => [...groups.values()]).sort((a, b) => b.count - a.count)
}

/** Letters come in the order of their deaths, newest first. */
function add(groups: Map<string, Group>, { id, kind, errorCode, errorMessage, changedAt }: TaskRecord): void {
  const died = new Date(changedAt).toISOString()
  const { id: print, errorName, pattern } = fingerprint({ kind, code: errorCode, error: errorMessage })
  const name = groups.has(print) || groups.size < MAX_GROUPS ? print : 'other'
  const group = groups.get(name)
  if (group !== undefined) {
    group.count++
    group.firstDiedAt = died
    return
  }
  const about =
    name === 'other' ? { errorCode: null, errorName: '', pattern: 'other failures' } : { errorName, pattern }
  groups.set(name, {
    kind,
    errorCode: errorCode ?? null,
    ...about,
    count: 1,
    firstDiedAt: died,
    lastDiedAt: died,
    example: id,
  })
}
