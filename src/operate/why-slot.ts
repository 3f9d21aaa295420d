import { loadTimetables } from '../engine/internal.js'
import { formatDuration } from '../policy/index.js'
import { commandArgs } from '../policy/internal.js'
import {
  isWorker,
  type ScheduleRecord,
  type SlotEnd,
  type SlotRecord,
  slotRunId,
  spreadOf,
  type Timetable,
} from '../store/internal.js'
import { isoOrNull } from './task-view.js'
import type { Because, WhyAction, WhyCause, WhyStore } from './why-cause.js'
import { byText, timeText } from './why-text.js'

/** A slot of a schedule that has no task. */
export interface SlotWithoutTask extends Because {
  /** The id of its run. */
  readonly id: string
  readonly kind: string
  readonly category: string
  readonly key: string
  /** How it ended; `waiting` if it has not ended. */
  readonly status: SlotEnd | 'waiting'
}

const DAY = 86_400_000
const LOCAL_TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?$/

/**
 * Why a slot has no task: it ended without one, it waits, or it is not due. Its id is that of its run; in place of the
 * instant it may have the local time that the slot is for.
 */
export async function whySlot(store: WhyStore, id: string): Promise<SlotWithoutTask | undefined> {
  const separator = id.lastIndexOf('@')
  const [name, time] = [id.slice(0, separator), id.slice(separator + 1)]
  if (separator <= 0 || !/^[\w.:-]+$/.test(name)) return undefined
  const schedule = await store.schedules.get(name)
  const table =
    schedule &&
    (await loadTimetables()
      .then(tables => tables(schedule))
      .catch(() => undefined))
  const at = instantOf(time, table)
  if (at === undefined) return undefined
  const run = slotRunId(name, at)
  const ended = await store.schedules.slotOf(run)
  if (ended === undefined && schedule === undefined) return undefined
  const { kind, category = '', key = '' } = schedule?.task ?? { kind: '' }
  const about = { id: run, kind, category, key }
  const slot = ended ?? (await rangeOf(store, name, at))
  if (slot !== undefined) return { ...about, status: slot.end, ...ofEnd(slot, at) }
  if (schedule === undefined) return undefined
  return { ...about, ...(await ofOpenSlot(store, schedule, table, at)) }
}

/** What a run is for, beside the causes of its task's state; `undefined` for a task that is no run. */
export function runCause(slot: SlotRecord | undefined): WhyCause | undefined {
  if (slot === undefined) return undefined
  const { schedule, localTime, slot: at, reason } = slot
  const why = reason === undefined ? '' : `: ${reason}`
  const text = `It is the run of the schedule '${schedule}' for ${localText(localTime)}${why}.`
  return { code: 'run_of_schedule', text, facts: { schedule, slot: isoOrNull(at), local: localTime } }
}

/** The instant of a text: with its zone, or as the local time of a slot. */
function instantOf(time: string, table: Timetable | undefined): number | undefined {
  if (/Z$/.test(time)) {
    const at = Date.parse(time)
    return Number.isNaN(at) ? undefined : at
  }
  if (!LOCAL_TIME.test(time) || table === undefined) return undefined
  const local = time.replace(' ', 'T')
  const around = Date.parse(`${local}Z`)
  if (Number.isNaN(around)) return undefined
  for (let slot = table.next(around - DAY); slot !== undefined && slot < around + DAY; slot = table.next(slot)) {
    if (table.localTime(slot).startsWith(local)) return slot
  }
  return undefined
}

/** The record that stands for many slots, if this is one of them. */
async function rangeOf(store: WhyStore, name: string, at: number): Promise<SlotRecord | undefined> {
  const [before] = await store.schedules.lastSlots(name, 1, at)
  return before?.until !== undefined && before.until >= at ? before : undefined
}

function ofEnd({ schedule, localTime, slot, end, reason, at: endedAt }: SlotRecord, at: number): Because {
  const facts = { schedule, slot: isoOrNull(at), local: localTime, end, reason: reason ?? null, at: isoOrNull(endedAt) }
  const which = slot === at ? `The slot for ${localText(localTime)}` : `The slot at ${timeText(at)}`
  if (end === 'ran') {
    const text = `${which} ran: its task was enqueued at ${timeText(endedAt)}, and has been pruned since.`
    return { causes: [{ code: 'slot_ran', text, facts }], actions: [] }
  }
  const backfill = {
    text: 'If it is still wanted, run it now.',
    args: commandArgs('schedule backfill', { '--from': iso(at), '--to': iso(at + 1) }, schedule),
  }
  return { causes: [{ code: `slot_${end}`, text: `${which} was ${end}: ${reason}.`, facts }], actions: [backfill] }
}

type OpenSlot = Because & { readonly status: SlotWithoutTask['status'] }

/** A slot that is not on record: it waits, is not due, was not fired, or never was one. */
async function ofOpenSlot(
  store: WhyStore,
  schedule: ScheduleRecord,
  table: Timetable | undefined,
  at: number,
): Promise<OpenSlot> {
  const { name, waiting, runs, overlap } = schedule
  const local = table?.localTime(at) ?? null
  const slot = local === null ? `The slot at ${timeText(at)}` : `The slot for ${localText(local)}`
  const facts = { schedule: name, slot: isoOrNull(at), local }
  const answer = (code: string, text: string, action: WhyAction, status: OpenSlot['status'] = 'waiting'): OpenSlot => {
    return { status, causes: [{ code, text, facts }], actions: [action] }
  }
  const show = { text: 'See the schedule.', args: commandArgs('schedule show', {}, name) }
  const run = runs.at(-1)
  if (waiting === at && run !== undefined) {
    const text = `${slot} waits until the run ${run} has ended: with overlap '${overlap}', one run is under way at a time.`
    return answer('slot_waits', text, {
      text: 'See why that run has not ended.',
      args: commandArgs('why', {}, run),
    })
  }
  const never = neverFired(schedule, table, at, slot)
  if (never !== undefined) return answer(never.code, never.text, show, 'skipped')
  const { code, text, action = show } = await pending(store, schedule, at, slot)
  return answer(code, text, action)
}

/** Why a slot of the past is not on record, or why there is no such slot. */
function neverFired(
  { name, cursor, createdAt }: ScheduleRecord,
  table: Timetable | undefined,
  at: number,
  slot: string,
) {
  if (table !== undefined && table.next(at - 1) !== at)
    return { code: 'not_a_slot', text: `${timeText(at)} is no slot of the schedule '${name}'.` }
  if (at > cursor) return undefined
  const text =
    at <= createdAt
      ? `${slot} is older than the schedule, which was created at ${timeText(createdAt)}.`
      : `${slot} is not on record: its record was pruned, or the schedule had other times then.`
  return { code: 'slot_unknown', text }
}

/** Why a slot has not been fired yet. */
async function pending(
  store: WhyStore,
  schedule: ScheduleRecord,
  at: number,
  slot: string,
): Promise<{ readonly code: string; readonly text: string; readonly action?: WhyAction }> {
  const { name, paused, problem } = schedule
  const [{ now }, workers] = await Promise.all([store.schedules.next(), store.workers()])
  const dueAt = at + spreadOf(schedule)
  if (paused !== undefined) {
    const text = `The schedule '${name}' is paused${byText(paused, paused.at)}. ${slot} is skipped unless it is resumed before.`
    const action = { text: 'Resume the schedule.', args: commandArgs('schedule resume', {}, name) }
    return { code: 'schedule_paused', text, action }
  }
  if (dueAt > now) {
    const text = `${slot} is not due until ${timeText(dueAt)} (in ${formatDuration(dueAt - now)}).`
    return { code: 'slot_not_due', text }
  }
  if (problem !== undefined) return { code: 'schedule_broken', text: `The schedule cannot be fired: ${problem.why}` }
  const late = `${slot} has been due since ${timeText(dueAt)}, and nobody has fired it`
  if (workers.some(isWorker)) return { code: 'slot_late', text: `${late} yet.` }
  const action = { text: 'Start a worker: any of them fires all schedules.', args: commandArgs('worker ls') }
  return { code: 'no_worker', text: `${late}: no worker is alive.`, action }
}

function localText(local: string): string {
  return local.replace('T', ' ').replace(/:00$/, '')
}

function iso(at: number): string {
  return new Date(at).toISOString()
}
