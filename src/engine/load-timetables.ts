import type { Timetables } from '../store/internal.js'

let loading: Promise<Timetables> | undefined

/** Loads the parser of cron expressions, which most programs do without. */
export function loadTimetables(): Promise<Timetables> {
  loading ??= import('../calendar/internal.js').then(({ timetables }) => timetables())
  return loading
}
