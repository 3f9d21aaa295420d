import { canonicalJson, hashJson } from '../../../policy/index.js'
import type { By } from '../../contract/ledger.js'
import type { Declared, ScheduleSpec, SlotEnd, Timetable } from '../../contract/schedule-store.js'
import { isAtOrAfter } from '../groups/release-order.js'
import { dueSlots } from './due-slots.js'
import { fire } from './fire.js'
import {
  nextDue,
  type ScheduleChange,
  type ScheduleState,
  slotRecord,
  spreadOf,
  type UnfinishedRuns,
} from './schedule-state.js'

/** The circumstances of a change: the time, and the runs that have not finished. */
export interface AtChange {
  readonly now: number
  readonly unfinished: UnfinishedRuns
}

/** Who declares: a worker, with the release of its code, among others that are alive. */
export interface Declarer {
  readonly worker: string
  readonly release?: string | undefined
  readonly live: ReadonlySet<string>
}

/** Code declares a schedule, whenever it starts. */
export function declare(
  before: { readonly state: ScheduleState; readonly timetable: Timetable } | undefined,
  spec: ScheduleSpec,
  timetable: Timetable,
  { worker, live, release, ...at }: AtChange & Declarer,
): ScheduleChange & { readonly outcome: Declared } {
  const workers = [...new Set([...(before?.state.declared?.workers ?? []).filter(name => live.has(name)), worker])]
  const declared = { hash: hashJson(spec), at: at.now, workers, ...(release !== undefined && { release }) }
  if (before === undefined) return { outcome: 'created', ...withDeclaration(create(spec, timetable, at.now), declared) }
  const { state } = before
  const last = state.declared
  const isOlder = release !== undefined && last?.release !== undefined && isAtOrAfter(release, last.release) === false
  if (last?.hash === declared.hash) {
    // The data of time zones may have changed since its next slot was computed.
    const dueAt = state.waiting === undefined ? nextDue(state, before.timetable) : state.dueAt
    return { outcome: 'unchanged', ...only({ ...state, dueAt, declared: isOlder ? { ...last, workers } : declared }) }
  }
  if (isOlder && last !== undefined) return { outcome: 'kept', ...only({ ...state, declared: { ...last, workers } }) }
  return { outcome: 'changed', ...withDeclaration(change(before, spec, timetable, at), declared) }
}

/** A schedule that is new begins now: slots before that are for a backfill. */
export function create(spec: ScheduleSpec, timetable: Timetable, now: number): ScheduleChange {
  const state = { ...spec, generation: 1, cursor: now, runs: [], createdAt: now, changedAt: now }
  return only({ ...state, dueAt: nextDue(state, timetable) })
}

/**
 * Gives a schedule another definition. Other times, another zone or another task make a new generation, which begins now:
 * runs of the one before that have not begun are skipped. Anything else changes what follows, and fires nothing.
 */
export function change(
  { state: before, timetable: old }: { readonly state: ScheduleState; readonly timetable: Timetable },
  spec: ScheduleSpec,
  timetable: Timetable,
  { now, unfinished }: AtChange,
): ScheduleChange {
  const { startAt: _, endAt: __, waiting, ...kept } = before
  if (workOf(before) === workOf(spec)) {
    const state = { ...kept, ...spec, ...(waiting !== undefined && { waiting }), changedAt: now }
    return only({ ...state, dueAt: waiting === undefined ? nextDue(state, timetable) : before.dueAt })
  }
  const skipped = { end: 'skipped', reason: 'the schedule was changed' } as const
  const state = {
    ...kept,
    ...spec,
    generation: before.generation + 1,
    cursor: Math.max(before.cursor, now),
    runs: [],
    changedAt: now,
  }
  return {
    state: { ...state, dueAt: nextDue(state, timetable) },
    slots: unsettled(before, old, now, skipped),
    tasks: [],
    cancel: before.runs.filter(id => unfinished.get(id)?.hasBegun === false),
    cancelled: { ...skipped, reason: 'the schedule was changed before it began' },
  }
}

/** Pauses a schedule: slots in the pause are skipped, and not caught up afterwards. */
export function pause(state: ScheduleState, by: By, now: number): ScheduleState {
  return state.paused === undefined ? { ...state, paused: { ...by, at: now }, changedAt: now } : state
}

/** Ends a pause, and with it the slots that were due in it. */
export function resume(before: ScheduleState, timetable: Timetable, at: AtChange): ScheduleChange {
  if (before.paused === undefined) return only(before)
  const change = fire(before, timetable, at)
  const { paused: _, ...state } = change.state
  return { ...change, state: { ...state, changedAt: at.now } }
}

/** The slots that are due or wait, with one end for all of them. */
function unsettled(
  state: ScheduleState,
  timetable: Timetable,
  now: number,
  end: { readonly end: SlotEnd; readonly reason: string },
): ScheduleChange['slots'] {
  const { slots, earlier } = dueSlots(timetable, state.cursor, now - spreadOf(state))
  const waiting = state.waiting === undefined ? [] : [state.waiting]
  const records = [...waiting, ...slots].map(slot => slotRecord(state, timetable, slot, end, now))
  return earlier === undefined
    ? records
    : [{ ...slotRecord(state, timetable, earlier.slot, end, now), until: earlier.until }, ...records]
}

/** What a definition would do to the schedule with its name. */
export function scheduleEffect(
  before: ScheduleSpec | undefined,
  spec: ScheduleSpec,
): 'create' | 'begin_anew' | 'change' | 'none' {
  if (before === undefined) return 'create'
  if (workOf(before) !== workOf(spec)) return 'begin_anew'
  const isSame = ([field, value]: [string, unknown]) =>
    canonicalJson({ value }) === canonicalJson({ value: Reflect.get(before, field) })
  return Object.entries(spec).every(isSame) ? 'none' : 'change'
}

/** What makes a generation, as text. */
function workOf({ times, timeZone, startAt, task: { kind, category, key, payload } }: ScheduleSpec): string {
  return canonicalJson({
    times,
    timeZone,
    anchor: 'everyMs' in times ? startAt : undefined,
    kind,
    category,
    key,
    payload,
  })
}

function only(state: ScheduleState): ScheduleChange {
  return { state, slots: [], tasks: [], cancel: [] }
}

function withDeclaration(change: ScheduleChange, declared: ScheduleState['declared']): ScheduleChange {
  return { ...change, state: { ...change.state, declared } }
}
