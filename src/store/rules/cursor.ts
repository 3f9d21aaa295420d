import { OptionError } from '../../policy/index.js'
import type { Page } from '../contract/list.js'

/** The last task of a page. The next page begins behind it, whatever was added since. */
export interface TaskPlace {
  readonly changedAt: number
  readonly id: string
}

/** Before all entries of a list that has the newest first, and of one that has the oldest first. */
export const NEWEST: TaskPlace = { changedAt: Number.MAX_SAFE_INTEGER, id: '' }
export const OLDEST: TaskPlace = { changedAt: 0, id: '' }

/** Compares places by time, then by id. */
export function comparePlaces(a: TaskPlace, b: TaskPlace): number {
  return a.changedAt - b.changedAt || compareTexts(a.id, b.id)
}

/** Compares texts by their code points, as both databases do. JavaScript compares UTF-16 units, and has emoji before U+FFEE. */
export function compareTexts(a: string, b: string): number {
  const end = Math.min(a.length, b.length)
  for (let n = 0; n < end; n++) {
    const [x, y] = [a.charCodeAt(n), b.charCodeAt(n)]
    if (x !== y) return rankOf(x) - rankOf(y)
  }
  return a.length - b.length
}

/** Puts surrogates behind all other units. */
function rankOf(unit: number): number {
  if (unit < 0xd800) return unit
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800
}

/** A page of entries in the order of a time. A store looks for one more than the limit, to know whether there are more. */
export function pageByTime<T extends { readonly id: string }>(
  found: readonly T[],
  limit: number,
  timeOf: (entry: T) => number,
): Page<T> {
  const items = found.slice(0, limit)
  const last = items.at(-1)
  if (found.length <= limit || last === undefined) return { items }
  return { items, next: cursorAt({ changedAt: timeOf(last), id: last.id }) }
}

/** A page of tasks by their last change. */
export function taskPage<T extends TaskPlace>(found: readonly T[], limit: number): Page<T> {
  return pageByTime(found, limit, ({ changedAt }) => changedAt)
}

/** A page of entries that were read with this limit. One that is full may be the last. */
export function fullPage<T>(items: readonly T[], limit: number, next: string): Page<T> {
  return items.length > 0 && items.length === limit ? { items, next } : { items }
}

/** The cursor of the page that begins behind a task. */
export function cursorAt({ changedAt, id }: TaskPlace): string {
  return `${changedAt}:${id}`
}

/** Parses the cursor of a page of tasks. Throws an `OptionError` if it is not one. */
export function taskPlace(cursor: string): TaskPlace {
  const [, changedAt, id] = /^(-?\d{1,16}):(.*)$/s.exec(cursor) ?? []
  if (changedAt === undefined || id === undefined) throw badCursor(cursor)
  return { changedAt: Number(changedAt), id }
}

/** Parses the cursor of a page whose entries are numbered: audit records, items of a run. Throws an `OptionError` if it is not one. */
export function numberPlace(cursor: string): number {
  if (!/^\d{1,15}$/.test(cursor)) throw badCursor(cursor)
  return Number(cursor)
}

function badCursor(cursor: string): OptionError {
  const shown = JSON.stringify(String(cursor).slice(0, 60))
  return new OptionError('after', `'after' must be the 'next' of the page before, got ${shown}.`)
}
