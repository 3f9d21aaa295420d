import { OptionError } from '../policy/index.js'

/** Where a page of tasks ended: the next one begins behind it, whatever was added since. */
export interface TaskPlace {
  readonly changedAt: number
  readonly id: string
}

/** A place among tasks as the text that callers hand back. */
export function taskCursor({ changedAt, id }: TaskPlace): string {
  return `${changedAt}:${id}`
}

/** The place that a text stands for. Throws an `OptionError` if it is none of ours. */
export function taskPlace(cursor: string): TaskPlace {
  const [, changedAt, id] = /^(-?\d{1,16}):(.*)$/s.exec(cursor) ?? []
  if (changedAt === undefined || id === undefined) throw badCursor(cursor)
  return { changedAt: Number(changedAt), id }
}

/** The number of the audit record that a text stands for. Throws an `OptionError` if it is none of ours. */
export function auditPlace(cursor: string): number {
  if (!/^\d{1,15}$/.test(cursor)) throw badCursor(cursor)
  return Number(cursor)
}

function badCursor(cursor: string): OptionError {
  const shown = JSON.stringify(String(cursor).slice(0, 60))
  return new OptionError('after', `'after' must be the 'next' of the page before, got ${shown}.`)
}
