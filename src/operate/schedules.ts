import { loadTimetables } from '../engine/internal.js'
import { RedriveError } from '../policy/index.js'
import { commandLine, quoted } from '../policy/internal.js'
import type { By, Page, PageRequest, Store } from '../store/index.js'
import {
  type CatchUp,
  contractOf,
  isRunBy,
  type Overlap,
  type ScheduledTask,
  type ScheduleRecord,
  type ScheduleSpec,
  type ScheduleTimes,
  type SlotEnd,
  type SlotRecord,
  type StartedRun,
  scheduleEffect,
  type Timetable,
  type WorkerRecord,
} from '../store/internal.js'
import { isoOrNull } from './task-view.js'

/** A slot to come, as plain JSON, with the local time that it is for. @inline */
export interface NextSlotView {
  readonly at: string
  readonly local: string
}

/** A schedule as plain JSON. Times are ISO 8601 text in UTC. */
export interface ScheduleView {
  /** Its name. */
  readonly name: string
  /** `paused` by somebody, `over` once it has no more slots, or else `on`. */
  readonly state: 'on' | 'paused' | 'over'
  /** When it is due. */
  readonly times: ScheduleTimes
  /** Its time zone. */
  readonly timeZone: string
  /** The task that it enqueues. */
  readonly task: ScheduledTask
  /** What follows when slots were missed. */
  readonly catchUp: CatchUp
  /** What follows when an earlier run has not finished. */
  readonly overlap: Overlap
  /** Its next slots, with the local time that each is for. Empty while it is paused. */
  readonly next: readonly NextSlotView[]
  /** The slot that waits for an earlier run to end, with the local time that it is for, and that run. */
  readonly waiting: { readonly slot: string; readonly local: string; readonly behind: string | null } | null
  /** Who paused it, when and why. */
  readonly paused: { readonly who: string; readonly why: string | null; readonly at: string } | null
  /**
   * The release of the code that declared it last, when a worker did so, and whether a live worker has it in its code;
   * `null` if it was only set at run time.
   */
  readonly declared: { readonly release: string | null; readonly at: string; readonly isLive: boolean } | null
  /** How many live workers run its task. */
  readonly workers: number
  /** Counts the changes of its times, its time zone and its task. */
  readonly generation: number
  /** Why it cannot be fired, and the slot since which it cannot. */
  readonly problem: { readonly why: string; readonly since: string } | null
}

/** A slot as plain JSON. */
export interface SlotView {
  /** The slot. */
  readonly slot: string
  /** The last slot, where this stands for all from `slot` on. */
  readonly until: string | null
  /** The local time that it is for. */
  readonly local: string
  /** How it ended. */
  readonly end: SlotEnd
  /** Why. */
  readonly reason: string | null
}

/** Thrown when a store has no schedule of this name. */
export class ScheduleNotFoundError extends RedriveError {
  static {
    ScheduleNotFoundError.prototype.name = 'ScheduleNotFoundError'
  }

  constructor(
    /** The name that was asked for. */
    readonly schedule: string,
  ) {
    super(
      'schedule_not_found',
      `There is no schedule ${quoted(schedule)} in the store. To list them, run: ${commandLine('schedule ls')}`,
    )
  }
}

/** How many of its next slots a schedule shows. */
const NEXT = 3

/** Lists schedules by name. */
export async function listSchedules(store: Store, page: PageRequest): Promise<Page<ScheduleView>> {
  const { items, ...rest } = await contractOf(store).schedules.list(page)
  const around = await aroundOf(store)
  const views = await Promise.all(items.map(item => scheduleView(item, around, 1)))
  return { items: views, ...rest }
}

/** A schedule with its next slots, and its last ones with their ends, oldest first. */
export async function findSchedule(
  store: Store,
  name: string,
  { last = 20 }: { readonly last?: number } = {},
): Promise<ScheduleView & { readonly slots: readonly SlotView[] }> {
  const record = await known(store, name)
  const slots = await contractOf(store).schedules.lastSlots(name, last)
  return { ...(await scheduleView(record, await aroundOf(store), NEXT)), slots: slots.map(slotView) }
}

/** The effect that setting a schedule would have now. Nothing is changed. */
export interface SchedulePlan {
  /** Its name. */
  readonly name: string
  /**
   * Whether it would be new, have other times or another task (`begin_anew`: runs that have not begun are skipped), differ in
   * something else, or be as it was.
   */
  readonly effect: 'create' | 'begin_anew' | 'change' | 'none'
  /** Its next slots then, though it be paused. */
  readonly next: readonly NextSlotView[]
  /** Whether it is paused, and stays so. */
  readonly isPaused: boolean
}

/** Plans to create or change a schedule. Throws an `OptionError` if its times cannot be. */
export async function planSchedule(store: Store, { spec }: { readonly spec: ScheduleSpec }): Promise<SchedulePlan> {
  const { schedules } = contractOf(store)
  const before = await schedules.get(spec.name)
  const { now } = await schedules.next()
  const table = (await loadTimetables())(spec)
  return {
    name: spec.name,
    effect: scheduleEffect(before, spec),
    next: nextSlots(table, Math.max(now, before?.cursor ?? now), NEXT),
    isPaused: before?.paused !== undefined,
  }
}

/** Creates or changes a schedule, made by `schedule()`. That holds until code declares something else than before. */
export async function setSchedule(
  store: Store,
  schedule: { readonly spec: ScheduleSpec },
  by: By,
): Promise<ScheduleView> {
  const record = await contractOf(store).schedules.set(schedule.spec, by, await loadTimetables())
  return scheduleView(record, await aroundOf(store), NEXT)
}

/** Pauses a schedule: its slots are skipped, and not caught up. Runs that were enqueued go on. */
export async function pauseSchedule(store: Store, name: string, by: By): Promise<void> {
  if (!(await contractOf(store).schedules.pause(name, by))) throw new ScheduleNotFoundError(name)
}

/** Ends the pause of a schedule. */
export async function resumeSchedule(store: Store, name: string, by: By): Promise<void> {
  if (!(await contractOf(store).schedules.resume(name, by, await loadTimetables())))
    throw new ScheduleNotFoundError(name)
}

/** Removes a schedule. Its runs and the record of its slots stay. Code that declares it makes it again. */
export async function removeSchedule(store: Store, name: string, by: By): Promise<void> {
  if (!(await contractOf(store).schedules.remove(name, by))) throw new ScheduleNotFoundError(name)
}

/** Starts a run of a schedule now, beside its slots. Answers with the unfinished run where runs must not overlap. */
export async function runSchedule(store: Store, name: string, by: By): Promise<StartedRun> {
  const started = await contractOf(store).schedules.run(name, by, await loadTimetables())
  if (started === undefined) throw new ScheduleNotFoundError(name)
  return started
}

export async function known(store: Store, name: string): Promise<ScheduleRecord> {
  const record = await contractOf(store).schedules.get(name)
  if (record === undefined) throw new ScheduleNotFoundError(name)
  return record
}

async function timetableOf(record: ScheduleRecord): Promise<Timetable> {
  return (await loadTimetables())(record)
}

/** The time, and the live workers. */
interface Around {
  readonly now: number
  readonly workers: readonly WorkerRecord[]
}

async function aroundOf(store: Store): Promise<Around> {
  const [{ now }, workers] = await Promise.all([contractOf(store).schedules.next(), contractOf(store).workers()])
  return { now, workers }
}

async function scheduleView(record: ScheduleRecord, { now, workers }: Around, count: number): Promise<ScheduleView> {
  const { name, times, timeZone, task, catchUp, overlap, waiting, runs, paused, declared, generation, problem } = record
  const table = await timetableOf(record).catch(() => undefined)
  const isNever = table === undefined || paused !== undefined
  const next = isNever ? [] : nextSlots(table, Math.max(record.cursor, now), count)
  return {
    name,
    state: paused !== undefined ? 'paused' : record.dueAt === undefined ? 'over' : 'on',
    times,
    timeZone,
    task,
    catchUp,
    overlap,
    next,
    waiting:
      waiting === undefined
        ? null
        : {
            slot: new Date(waiting).toISOString(),
            local: table?.localTime(waiting) ?? '',
            behind: runs.at(-1) ?? null,
          },
    paused:
      paused === undefined ? null : { who: paused.who, why: paused.why ?? null, at: new Date(paused.at).toISOString() },
    declared:
      declared === undefined
        ? null
        : {
            release: declared.release ?? null,
            at: new Date(declared.at).toISOString(),
            isLive: workers.some(worker => declared.workers.includes(worker.name)),
          },
    workers: workers.filter(worker => isRunBy(worker, task)).length,
    generation,
    problem: problem === undefined ? null : { why: problem.why, since: new Date(problem.since).toISOString() },
  }
}

function nextSlots(table: Timetable, after: number, count: number): NextSlotView[] {
  const next: NextSlotView[] = []
  for (let slot = table.next(after); slot !== undefined && next.length < count; slot = table.next(slot))
    next.push({ at: new Date(slot).toISOString(), local: table.localTime(slot) })
  return next
}

export function slotView({ slot, until, localTime, end, reason }: SlotRecord): SlotView {
  return { slot: new Date(slot).toISOString(), until: isoOrNull(until), local: localTime, end, reason: reason ?? null }
}
