import type { Lane } from '../../contract/lane.js'
import type { Page, PageRequest } from '../../contract/list.js'
import {
  AGES,
  type Age,
  type OperationAct,
  type OperationMember,
  type SurveyRow,
} from '../../contract/operation-store.js'
import { comparePlaces, numberPlace, taskPage, taskPlace } from '../cursor.js'

const HOUR_MS = 3_600_000

/** The ages up to which a state counts as one of `AGES`. */
export const AGE_LIMITS_MS = [HOUR_MS, 24 * HOUR_MS, 7 * 24 * HOUR_MS]

/** The age of a state that was reached at a time. */
export function ageOf(changedAt: number, now: number): Age {
  const index = AGE_LIMITS_MS.findIndex(limit => now - changedAt < limit)
  return AGES[index] ?? 'older'
}

/** Adds up rows that agree. */
export function surveyed(rows: readonly SurveyRow[]): SurveyRow[] {
  const sums = new Map<string, SurveyRow>()
  for (const row of rows) {
    const { count, ...fields } = row
    const name = JSON.stringify(Object.values(fields))
    sums.set(name, { ...fields, count: count + (sums.get(name)?.count ?? 0) })
  }
  return [...sums.values()]
}

/**
 * A page of members in the order of their states' ages. A store looks for one member more than the limit. Tasks to be
 * cancelled leave the set when they are, so each page of them is the first.
 */
export function memberPage(
  act: OperationAct,
  found: readonly OperationMember[],
  { limit, after }: PageRequest,
): Page<OperationMember> {
  const from = after === undefined || act === 'cancel' ? undefined : taskPlace(after)
  return taskPage(
    found.filter(member => from === undefined || comparePlaces(member, from) > 0),
    limit,
  )
}

/** The ids to look for on a page of members that were named, and the page of those found. With `lane`, each page has all of it. */
export function namedPage(
  all: readonly string[],
  { limit, after, lane }: PageRequest & { readonly lane?: Lane | undefined },
): { readonly ids: readonly string[]; of(found: readonly OperationMember[]): Page<OperationMember> } {
  const from = after === undefined ? 0 : numberPlace(after)
  const next = from + limit < all.length ? { next: String(from + limit) } : {}
  return {
    ids: lane === undefined ? all.slice(from, from + limit) : all,
    of: found => ({ items: found.filter(member => lane === undefined || isSameLane(member, lane)), ...next }),
  }
}

export function isSameLane(a: Lane, b: Lane): boolean {
  return a.kind === b.kind && a.category === b.category && a.key === b.key
}

/** The answer to an undo of a page of members. A store looks for one more than the limit, in the order of their ids. */
export function undonePage(
  found: readonly { readonly id: string }[],
  limit: number,
  undone: number,
): { readonly undone: number; readonly next?: string } {
  const last = found[limit - 1]
  return found.length > limit && last !== undefined ? { undone, next: last.id } : { undone }
}
