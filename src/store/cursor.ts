import { OptionError } from '../policy/index.js'
import type { Page, TaskRecord } from './store.js'

/** The last task of a page. The next page begins behind it, whatever was added since. */
export interface TaskPlace {
  readonly changedAt: number
  readonly id: string
}

/** A page of the tasks found, in order. A store looks for one task more than the limit, to know whether there are more. */
export function taskPage(found: readonly TaskRecord[], limit: number): Page<TaskRecord> {
  const items = found.slice(0, limit)
  const last = items.at(-1)
  return found.length > limit && last !== undefined ? { items, next: `${last.changedAt}:${last.id}` } : { items }
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
