import type { PatternRules } from '../../fingerprint/internal.js'
import type { Page, PageRequest } from '../../store/index.js'
import type { GroupStore, StoreContract } from '../../store/internal.js'
import { isLostGroup, plannedMoves } from './planned-moves.js'

/** The result of going through all groups. */
export interface Regrouped {
  /** How many tasks were moved. */
  readonly moved: number
  /** Whether every group was gone through. */
  readonly isDone: boolean
}

const PAGE = 500

/**
 * Goes through the groups of a store, and moves the tasks that belong to another one by these rules. A group that an open
 * operation is about is left for later, since its set would lose its members.
 */
export async function regroup(store: StoreContract, rules: PatternRules, signal: AbortSignal): Promise<Regrouped> {
  const held = await heldGroups(store)
  let moved = 0
  let isDone = true
  for (const id of await groupIds(store.groups)) {
    if (held.has(id)) isDone = false
    if (held.has(id) || isLostGroup(id)) continue
    for await (const { looked: _, ...regrouping } of plannedMoves(store, id, rules)) {
      if (signal.aborted) return { moved, isDone: false }
      moved += await store.groups.regroup(regrouping)
    }
    if (signal.aborted) return { moved, isDone: false }
  }
  return { moved, isDone }
}

/** The groups that open operations select by. */
async function heldGroups({ operations }: Pick<StoreContract, 'operations'>): Promise<Set<string>> {
  const open = await all(page => operations.list({ isOpen: true }, page))
  return new Set(open.flatMap(({ set }) => ('filter' in set ? (set.filter.group ?? []) : [])))
}

async function groupIds(groups: GroupStore): Promise<string[]> {
  return (await all(page => groups.list({}, page))).map(({ id }) => id)
}

async function all<T>(read: (page: PageRequest) => Promise<Page<T>>): Promise<T[]> {
  const found: T[] = []
  let after: string | undefined
  do {
    const { items, next } = await read({ limit: PAGE, ...(after !== undefined && { after }) })
    found.push(...items)
    after = next
  } while (after !== undefined)
  return found
}
