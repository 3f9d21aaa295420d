import { OptionError } from '../../../policy/index.js'
import { quoted } from '../../../policy/internal.js'
import type { CatchUp, Overlap, ScheduleSpec } from '../../contract/schedule-store.js'
import { checkNewTask, checkTime } from '../check.js'

export const CATCH_UPS: readonly CatchUp[] = ['skip', 'last', 'all']
export const OVERLAPS: readonly Overlap[] = ['allow', 'skip', 'after', 'replace']

/** A slot is found by its run's id, which begins with the name and an `@`. */
export function checkScheduleName(name: unknown): asserts name is string {
  if (typeof name === 'string' && /^[\w.:-]{1,100}$/.test(name)) return
  throw new OptionError('name', `A schedule is named with letters, digits and _.:- (at most 100), got ${quoted(name)}.`)
}

/** Checks a schedule that comes as plain data. Its times are checked by whoever makes its timetable. */
export function checkSchedule(spec: ScheduleSpec): void {
  checkScheduleName(spec?.name)
  const { name, times, startAt, endAt, task, catchUp, catchUpWithinMs, overlap, spreadMs } = spec
  const wrong = (option: string, form: string, value: unknown) =>
    new OptionError(option, `'${option}' of the schedule '${name}' must be ${form}, got ${quoted(value)}.`)
  const interval = times !== null && typeof times === 'object' && 'everyMs' in times ? times.everyMs : undefined
  if (interval !== undefined && !(Number.isSafeInteger(interval) && interval >= 1000 && interval % 1000 === 0))
    throw wrong('times.everyMs', 'whole seconds in milliseconds, 1000 or more', interval)
  if (interval === undefined && typeof Reflect.get(Object(times), 'cron') !== 'string')
    throw wrong('times', 'an object with cron or everyMs', times)
  if (startAt !== undefined) checkTime('startAt', startAt)
  if (endAt !== undefined) checkTime('endAt', endAt)
  if (!CATCH_UPS.includes(catchUp)) throw wrong('catchUp', CATCH_UPS.join(', '), catchUp)
  if (!OVERLAPS.includes(overlap)) throw wrong('overlap', OVERLAPS.join(', '), overlap)
  for (const [option, ms] of Object.entries({ catchUpWithinMs, spreadMs })) {
    if (!(Number.isSafeInteger(ms) && ms >= 0)) throw wrong(option, 'whole milliseconds, 0 or more', ms)
  }
  checkNewTask(task)
}
