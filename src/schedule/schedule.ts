import { timetable } from '../calendar/internal.js'
import { toMs } from '../engine/internal.js'
import { type Duration, OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions, wrongOption } from '../policy/internal.js'
import {
  CATCH_UPS,
  type CatchUp,
  checkScheduleName,
  OVERLAPS,
  type Overlap,
  type ScheduledTask,
  type ScheduleSpec,
  type ScheduleTimes,
} from '../store/internal.js'
import type { DeclaredTask } from '../task/index.js'
import { checkedPriority, checkMadeByStore, type Moment, payloadJson, toTime } from '../task/internal.js'

/** Options of `schedule`. It has either a cron expression or an interval. */
export interface ScheduleOptions<Input = unknown> {
  /** Five fields: minute, hour, day, month, weekday; or six, with seconds first. Or a name, such as `@daily`. */
  readonly cron?: string | undefined
  /** An interval of whole seconds. It is counted from `startAt`, or else from the epoch, never from the start of a process. */
  readonly every?: Duration | undefined
  /** The zone of the cron expression, such as `Europe/Berlin`. Default: `UTC`. */
  readonly timeZone?: string | undefined
  /** The task to enqueue. */
  readonly task: DeclaredTask<unknown, unknown, Input>
  /** The category of its tasks. */
  readonly category?: string | undefined
  /** The key of the lane of its tasks. */
  readonly key?: string | undefined
  /** The priority of its tasks. Default 0. */
  readonly priority?: number | undefined
  /** What follows when slots were missed: none of them runs, the last one does, or all do. Default: `last`. */
  readonly catchUp?: CatchUp | undefined
  /** Slots that are later than this are not caught up. Default: a day. */
  readonly catchUpWithin?: Duration | undefined
  /**
   * What follows when the run of an earlier slot has not finished, retries included: both run, the new slot is left out, it
   * waits for the earlier run (one slot at most), or it cancels the earlier run. Default: `allow`.
   */
  readonly overlap?: Overlap | undefined
  /** Spreads schedules with the same slots over this time: each starts late by a time that depends on its name. Default: 0. */
  readonly spread?: Duration | undefined
  /** No slot is before this time. */
  readonly startAt?: Moment | undefined
  /** Every slot is before this time. */
  readonly endAt?: Moment | undefined
}

/** The payload, which may be left out where the task takes `null`. */
type PayloadOption<Input> = null extends Input ? { readonly payload?: Input } : { readonly payload: Input }

/** A schedule, made by `schedule()`. */
export interface Schedule {
  /** Its name: a schedule with this name in a store is this one. */
  readonly name: string
  /** All of it as plain data. */
  readonly spec: ScheduleSpec
  /** The task that it enqueues. */
  readonly task: DeclaredTask
}

const OPTIONS: KnownOptions<ScheduleOptions & { payload: unknown }> = {
  cron: '',
  every: '',
  timeZone: '',
  task: 'object',
  payload: '',
  category: '',
  key: '',
  priority: '',
  catchUp: '',
  catchUpWithin: '',
  overlap: '',
  spread: '',
  startAt: '',
  endAt: '',
}

const SECOND = 1000
const DAY = 86_400_000

/**
 * Defines recurring work.
 *
 * ```ts
 * const nightly = schedule('nightly-report', { cron: '30 2 * * *', timeZone: 'Europe/Berlin', task: report })
 * ```
 */
export function schedule<Input>(
  name: string,
  options: ScheduleOptions<Input> & PayloadOption<NoInfer<Input>>,
): Schedule {
  checkOptions('schedule()', options, OPTIONS)
  checkScheduleName(name)
  const { task, timeZone = 'UTC' } = options
  if (typeof task?.kind !== 'string')
    throw new OptionError('task', 'A task is what declareTask() or defineTask() returns.')
  checkMadeByStore('task', task)
  const { startAt, endAt } = spanOf(options)
  const times = timesOf(options, startAt)
  const spec = { name, times, timeZone, startAt, endAt, ...rulesOf(options), task: taskOf(options) }
  const table = timetable(spec)
  if (startAt !== undefined && table.next(startAt - 1) === undefined) {
    throw new OptionError('endAt', `The schedule '${name}' has no slot between its 'startAt' and its 'endAt'.`)
  }
  return { name, task, spec }
}

function taskOf({ task, category, key, priority, payload }: ScheduleOptions & { payload?: unknown }): ScheduledTask {
  return {
    kind: task.kind,
    category,
    key,
    priority: checkedPriority(priority),
    payload: payloadJson(task.kind, payload),
  }
}

function spanOf(options: ScheduleOptions): Pick<ScheduleSpec, 'startAt' | 'endAt'> {
  const [startAt, endAt] = [toTime('startAt', options.startAt), toTime('endAt', options.endAt)]
  if (startAt !== undefined && endAt !== undefined && endAt <= startAt) {
    throw new OptionError('endAt', `'endAt' must be after 'startAt'.`)
  }
  return { startAt, endAt }
}

function timesOf({ cron, every }: ScheduleOptions, startAt: number | undefined): ScheduleTimes {
  if ((cron === undefined) === (every === undefined)) {
    throw new OptionError('cron', `A schedule has either a 'cron' expression or an interval, 'every'.`)
  }
  if (cron !== undefined) return { cron }
  const everyMs = toMs('every', every ?? 0)
  if (everyMs < SECOND || everyMs % SECOND !== 0) {
    throw wrongOption('every', "a whole number of seconds, '1s' or more", every)
  }
  if (startAt !== undefined && startAt % SECOND !== 0) {
    const why = 'an interval is counted from it, so it has to be the same time whenever the process starts'
    throw wrongOption('startAt', `a whole second, since ${why}`, new Date(startAt).toISOString())
  }
  return { everyMs }
}

function rulesOf(options: ScheduleOptions): Pick<ScheduleSpec, 'catchUp' | 'catchUpWithinMs' | 'overlap' | 'spreadMs'> {
  const { catchUp = 'last', catchUpWithin, overlap = 'allow', spread = 0 } = options
  if (!CATCH_UPS.includes(catchUp)) throw wrongOption('catchUp', CATCH_UPS.join(', '), catchUp)
  if (!OVERLAPS.includes(overlap)) throw wrongOption('overlap', OVERLAPS.join(', '), overlap)
  if (catchUp === 'skip' && catchUpWithin !== undefined) {
    throw new OptionError('catchUpWithin', `'catchUpWithin' has no effect with catchUp: 'skip'. Leave one of them out.`)
  }
  if (catchUp === 'all' && overlap !== 'allow') {
    const why = `catchUp: 'all' starts the runs of several slots at once, and overlap: '${overlap}' lets only one of them run`
    throw new OptionError('overlap', `${why}. Use catchUp: 'last', or overlap: 'allow'.`)
  }
  const spreadMs = toMs('spread', spread)
  if (spreadMs > DAY) throw wrongOption('spread', 'a day at most', spread)
  return { catchUp, catchUpWithinMs: toMs('catchUpWithin', catchUpWithin ?? DAY), overlap, spreadMs }
}
