import { formatDuration } from '../../../policy/index.js'
import type { ScheduleSpec, SlotRecord, Timetable } from '../../contract/schedule-store.js'
import type { NewTask } from '../../contract/task.js'
import { dueSlots, MAX_SLOTS } from './due-slots.js'
import {
  nextDue,
  runId,
  type ScheduleChange,
  type ScheduleState,
  slotRecord,
  spreadOf,
  type UnfinishedRuns,
} from './schedule-state.js'

/** A slot that is fired within this time has not been missed, and does not run late. */
const IN_TIME_MS = 60_000

/** A schedule looks whether the run has ended that its slot waits for: after a tenth of the time that it has waited. */
const LOOK_AGAIN = { shareOfWait: 0.1, minMs: 1000, maxMs: 60_000 }

/** The ids of more runs would make the record of a schedule large whose runs nobody starts. */
const MOST_RUNS = 1000

/** Ends the slots that are due, and starts the runs that follow. */
export function fire(
  before: ScheduleState,
  timetable: Timetable,
  { now, unfinished }: { readonly now: number; readonly unfinished: UnfinishedRuns },
): ScheduleChange {
  const firing = new Firing(before, timetable, now, unfinished)
  const { slots, earlier } = dueSlots(timetable, before.cursor, now - spreadOf(before))
  if (before.paused !== undefined) firing.skip(slots, earlier, before.paused)
  else {
    firing.startWaiting()
    firing.start(slots, earlier)
  }
  return firing.change(slots.at(-1))
}

/** One firing of one schedule, as it goes through the slots that are due. */
class Firing {
  readonly #before: ScheduleState
  readonly #timetable: Timetable
  readonly #now: number
  readonly #unfinished: UnfinishedRuns
  #slots: SlotRecord[] = []
  #tasks: NewTask[] = []
  #runs: readonly string[]
  #cancel: readonly string[] = []
  #waiting: number | undefined

  constructor(before: ScheduleState, timetable: Timetable, now: number, unfinished: UnfinishedRuns) {
    this.#before = before
    this.#timetable = timetable
    this.#now = now
    this.#unfinished = unfinished
    this.#runs = before.runs.filter(id => unfinished.has(id))
    this.#waiting = before.waiting
  }

  /** Runs the slot that waits, once the runs before it have ended. */
  startWaiting(): void {
    const slot = this.#waiting
    if (slot === undefined || this.#runs.length > 0) return
    this.#waiting = undefined
    this.#run(slot, 'it waited for the run before it')
  }

  start(slots: readonly number[], earlier: Range | undefined): void {
    const { catchUp } = this.#before
    const windowMs = catchUp === 'skip' ? IN_TIME_MS : Math.max(IN_TIME_MS, this.#before.catchUpWithinMs)
    if (earlier !== undefined) this.#end(earlier, 'missed', `more than ${MAX_SLOTS} slots were due at once`)
    const lateAllowed = catchUp === 'all' ? slots.length : 1
    for (const [index, slot] of slots.entries()) {
      const lateMs = this.#lateMs(slot)
      if (lateMs > windowMs) this.#end({ slot }, 'missed', missedReason(lateMs, windowMs, catchUp))
      else if (slots.length - index > lateAllowed)
        this.#end({ slot }, 'missed', 'a later slot was due by then, and only the last one runs')
      else this.#startOne(slot)
    }
  }

  /** Ends the slots that are due in a pause. */
  skip(slots: readonly number[], earlier: Range | undefined, paused: NonNullable<ScheduleState['paused']>): void {
    const reason = `the schedule was paused by ${paused.who}${paused.why === undefined ? '' : `: ${paused.why}`}`
    const waiting = this.#waiting
    this.#waiting = undefined
    const all = [...(waiting === undefined ? [] : [{ slot: waiting }]), ...(earlier === undefined ? [] : [earlier])]
    for (const range of [...all, ...slots.map(slot => ({ slot }))]) this.#end(range, 'skipped', reason)
  }

  change(last: number | undefined): ScheduleChange {
    const { dueAt: _, waiting: __, ...before } = this.#before
    const waiting = this.#waiting
    const state = {
      ...before,
      runs: this.#runs.slice(-MOST_RUNS),
      cursor: last ?? before.cursor,
      ...(waiting !== undefined && { waiting }),
    }
    const due = nextDue(state, this.#timetable)
    const lookAt = waiting === undefined ? undefined : this.#now + lookAgainMs(this.#now - waiting)
    const dueAt = due === undefined || lookAt === undefined ? (due ?? lookAt) : Math.min(due, lookAt)
    return {
      state: { ...state, dueAt },
      slots: this.#slots,
      tasks: this.#tasks,
      cancel: this.#cancel,
      cancelled: { end: 'overlapped', reason: 'the next slot replaced it before it began' },
    }
  }

  #startOne(slot: number): void {
    const busy = this.#runs.at(-1)
    const { overlap } = this.#before
    if (overlap === 'allow' || (busy === undefined && this.#waiting === undefined)) this.#run(slot)
    else if (overlap === 'replace') this.#replace(slot)
    else if (overlap === 'skip') this.#end({ slot }, 'overlapped', `the run ${busy} had not finished`)
    else if (this.#waiting === undefined) this.#waiting = slot
    else this.#end({ slot }, 'overlapped', `the slot ${iso(this.#waiting)} still waited for the run ${busy}`)
  }

  #replace(slot: number): void {
    const replaced = { end: 'overlapped', reason: `the slot ${iso(slot)} replaced it` } as const
    if (this.#waiting !== undefined) this.#end({ slot: this.#waiting }, replaced.end, replaced.reason)
    this.#waiting = undefined
    // Runs of this firing are not enqueued yet.
    this.#tasks = []
    this.#slots = this.#slots.map(record => (record.end === 'ran' ? this.#record(record.slot, replaced) : record))
    this.#cancel = [...new Set([...this.#cancel, ...this.#runs.filter(id => this.#unfinished.has(id))])]
    // A run that waits ends at once; one that runs has to stop first, so that no two of them run together.
    this.#runs = this.#runs.filter(id => this.#unfinished.get(id)?.isRunning)
    if (this.#runs.length > 0) this.#waiting = slot
    else this.#run(slot)
  }

  #run(slot: number, waited?: string): void {
    const { name, task } = this.#before
    const id = runId(name, slot)
    const lateMs = this.#lateMs(slot)
    const isCatchUp = lateMs > IN_TIME_MS && waited === undefined
    const reason = isCatchUp ? `it was caught up, ${formatDuration(lateMs)} late` : waited
    this.#tasks.push({ ...task, id })
    this.#runs = [...this.#runs, id]
    this.#slots.push({ ...this.#record(slot, { end: 'ran', reason }), ...(isCatchUp && { isCatchUp }) })
  }

  #end({ slot, until }: Range, end: SlotRecord['end'], reason: string): void {
    this.#slots.push({ ...this.#record(slot, { end, reason }), ...(until !== undefined && { until }) })
  }

  #record(slot: number, end: Pick<SlotRecord, 'end' | 'reason'>): SlotRecord {
    return slotRecord(this.#before, this.#timetable, slot, end, this.#now)
  }

  #lateMs(slot: number): number {
    return this.#now - slot - spreadOf(this.#before)
  }
}

function lookAgainMs(waitedMs: number): number {
  const { shareOfWait, minMs, maxMs } = LOOK_AGAIN
  return Math.min(maxMs, Math.max(minMs, Math.ceil(waitedMs * shareOfWait)))
}

/** A slot, or all of a span. */
interface Range {
  readonly slot: number
  readonly until?: number
}

function missedReason(lateMs: number, windowMs: number, catchUp: ScheduleSpec['catchUp']): string {
  const late = `nothing fired it in time: it was ${formatDuration(lateMs)} late`
  return catchUp === 'skip'
    ? `${late}, and late slots are not caught up`
    : `${late}, and it is caught up within ${formatDuration(windowMs)}`
}

function iso(slot: number): string {
  return new Date(slot).toISOString().replace('.000Z', 'Z')
}
