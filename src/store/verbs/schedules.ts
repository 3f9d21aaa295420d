import type { By } from '../contract/ledger.js'
import type { Page, PageRequest } from '../contract/list.js'
import type {
  Declared,
  FiredSlots,
  MissedSlots,
  ScheduleRecord,
  ScheduleSpec,
  ScheduleStore,
  SlotRecord,
  StartedRun,
  Timetables,
} from '../contract/schedule-store.js'
import type { Steps, Transactions } from '../port/steps.js'
import { checkBy, checkName, checkPage, checkTime } from '../rules/check.js'
import { recordedIds, scheduleRecord } from '../rules/operator-record.js'
import { type AtChange, change, create, declare, pause, resume } from '../rules/schedules/change-schedule.js'
import { checkSchedule } from '../rules/schedules/check-schedule.js'
import { startedNow, tryToFire } from '../rules/schedules/firing.js'
import {
  BROKEN,
  MISSED,
  missedOfRow,
  NEWS,
  SCHEDULE,
  SLOT,
  scheduleState,
  slotOfRow,
} from '../rules/schedules/schedule-rows.js'
import { runId, type ScheduleChange, type ScheduleState } from '../rules/schedules/schedule-state.js'
import { lockSchedules, noteTrouble, saveChanges, tellOf, unfinishedOf } from './schedule-changes.js'

/**
 * The bounds of a firing: a transaction ends soon, however many slots were missed, and however many runs have not finished.
 * What is left is fired by the next one.
 */
const MOST_SLOTS = 2000
const MOST_RUNS = 10_000

/** A place after those of all records. */
const NEWEST = { place: Number.MAX_SAFE_INTEGER, id: '' }

/** The schedules of every store. Any process fires, and leaves alone what another one is firing. */
export class Schedules implements ScheduleStore {
  readonly #store: Transactions
  readonly #ring: () => void

  constructor(store: Transactions, ring: () => void) {
    this.#store = store
    this.#ring = ring
  }

  async declare(
    specs: readonly ScheduleSpec[],
    { worker, release }: { readonly worker: string; readonly release?: string | undefined },
    timetables: Timetables,
  ): Promise<readonly Declared[]> {
    specs.forEach(checkSchedule)
    return this.#store.write(function* (tx) {
      const known = new Map(
        (yield* lockSchedules(
          tx,
          specs.map(({ name }) => name),
        )).map(state => [state.name, state]),
      )
      const live = new Set((yield* tx.reads.workers()).map(({ name }) => name))
      const by = { worker, release, live }
      const at = { now: yield* tx.clock.now(), unfinished: yield* unfinishedOf(tx, [...known.values()]), ...by }
      const changes = specs.map(spec => {
        const state = known.get(spec.name)
        return declare(state && withTimes(state, timetables), spec, timetables(spec), at)
      })
      yield* tellOf(tx, yield* saveChanges(tx, changes, at.now))
      for (const { outcome, state } of changes) {
        if (outcome === 'unchanged' || outcome === 'kept') continue
        const act = { event_type: `schedule_${outcome}`, schedule: state.name } as const
        const why = `declared by ${release === undefined ? 'its code' : `release ${release}`}`
        yield* tx.audit.append(scheduleRecord(act, { who: worker, why }, at.now), at.now)
      }
      return changes.map(({ outcome }) => outcome)
    })
  }

  async set(spec: ScheduleSpec, by: By, timetables: Timetables): Promise<ScheduleRecord> {
    checkSchedule(spec)
    checkPerson(by)
    return this.#store.write(function* (tx) {
      const [before] = yield* lockSchedules(tx, [spec.name])
      const at = { now: yield* tx.clock.now(), unfinished: yield* unfinishedOf(tx, before ? [before] : []) }
      const table = timetables(spec)
      const result = before ? change(withTimes(before, timetables), spec, table, at) : create(spec, table, at.now)
      yield* tellOf(tx, yield* saveChanges(tx, [result], at.now))
      const event_type = before ? 'schedule_changed' : 'schedule_created'
      yield* tx.audit.append(scheduleRecord({ event_type, schedule: spec.name }, by, at.now), at.now)
      return recordOf(result.state)
    })
  }

  async get(name: string): Promise<ScheduleRecord | undefined> {
    checkName('name', name)
    return this.#store.read(function* (tx) {
      const found = yield* tx.records.get(SCHEDULE, name)
      return found && recordOf(scheduleState(found))
    })
  }

  async list({ limit, after = '' }: PageRequest): Promise<Page<ScheduleRecord>> {
    checkPage({ limit })
    return this.#store.read(function* (tx) {
      const found = yield* tx.records.list(SCHEDULE, after, limit + 1)
      const items = found.slice(0, limit).map(row => recordOf(scheduleState(row)))
      return found.length > limit ? { items, next: items.at(-1)?.name ?? '' } : { items }
    })
  }

  async pause(name: string, by: By): Promise<boolean> {
    return this.#change(name, by, 'schedule_paused', (state, { now }) => {
      const after = pause(state, by, now)
      return after === state ? undefined : { state: after, slots: [], tasks: [], cancel: [] }
    })
  }

  async resume(name: string, by: By, timetables: Timetables): Promise<boolean> {
    return this.#change(name, by, 'schedule_resumed', (state, at) =>
      state.paused === undefined ? undefined : resume(state, timetables(state), at),
    )
  }

  async remove(name: string, by: By): Promise<boolean> {
    return this.#change(name, by, 'schedule_removed', () => 'drop')
  }

  async run(name: string, by: By, timetables: Timetables): Promise<StartedRun | undefined> {
    checkName('name', name)
    checkPerson(by)
    const started = await this.#store.write(function* (tx): Steps<StartedRun | undefined> {
      const [state] = yield* lockSchedules(tx, [name])
      if (state === undefined) return undefined
      const now = yield* tx.clock.now()
      const unfinished = yield* unfinishedOf(tx, [state])
      const busy = state.runs.findLast(id => unfinished.has(id))
      if (busy !== undefined && state.overlap !== 'allow') return { unfinished: busy }
      const { id, ...result } = startedNow(withTimes(state, timetables), by, { now, unfinished })
      yield* tellOf(tx, yield* saveChanges(tx, [result], now))
      const act = { event_type: 'schedule_run', schedule: name, runs: recordedIds([id]) } as const
      yield* tx.audit.append(scheduleRecord(act, by, now), now)
      return { id }
    })
    if (started !== undefined && 'id' in started) this.#ring()
    return started
  }

  async fire(limit: number, timetables: Timetables): Promise<FiredSlots> {
    checkPage({ limit })
    const fired = await this.#store.write(function* (tx) {
      const now = yield* tx.clock.now()
      const locked = (yield* tx.records.lockDue(SCHEDULE, now, limit)).map(scheduleState)
      const told = yield* tx.records.lockDue(NEWS, now, limit)
      if (told.length > 0)
        yield* tx.records.drop(
          NEWS,
          told.map(({ id }) => id),
        )
      const news = told.map(slotOfRow)
      if (locked.length === 0) return { slots: [], news, hasMore: told.length === limit, started: 0 }
      const due = upTo(MOST_RUNS, locked, state => [state, state.runs.length])
      const unfinished = yield* unfinishedOf(tx, due)
      const changes = upTo(MOST_SLOTS, due, state => {
        const change = tryToFire(state, timetables, { now, unfinished })
        return [change, change.slots.length]
      })
      const slots = yield* saveChanges(tx, changes, now)
      yield* noteTrouble(tx, due.slice(0, changes.length), changes, now)
      const hasMore = Math.max(locked.length, told.length) === limit || changes.length < locked.length
      return { slots, news, hasMore, started: slots.filter(({ end }) => end === 'ran').length }
    })
    if (fired.started > 0) this.#ring()
    return { slots: fired.slots, news: fired.news, hasMore: fired.hasMore }
  }

  async next(): Promise<{ readonly now: number; readonly dueAt: number | undefined; readonly hasNews: boolean }> {
    return this.#store.read(function* (tx) {
      const now = yield* tx.clock.now()
      const [dueAt, newsAt] = [yield* tx.records.nextPlace(SCHEDULE), yield* tx.records.nextPlace(NEWS)]
      return { now, dueAt, hasNews: newsAt !== undefined && newsAt <= now }
    })
  }

  async lagMs(): Promise<number> {
    return this.#store.read(function* (tx) {
      const now = yield* tx.clock.now()
      const [due = now, broken = now] = [yield* tx.records.nextPlace(SCHEDULE), yield* tx.records.nextPlace(BROKEN)]
      return Math.max(0, now - Math.min(due, broken))
    })
  }

  async missed(limit: number): Promise<readonly MissedSlots[]> {
    checkPage({ limit })
    return this.#store.read(function* (tx) {
      return (yield* tx.records.newest(MISSED, false, NEWEST, limit)).map(missedOfRow)
    })
  }

  async slotOf(run: string): Promise<SlotRecord | undefined> {
    checkName('run', run)
    return this.#store.read(function* (tx) {
      const found = yield* tx.records.get(SLOT, run)
      return found && slotOfRow(found)
    })
  }

  async slots(name: string, after: number, limit: number): Promise<readonly SlotRecord[]> {
    checkName('name', name)
    checkTime('after', after)
    checkPage({ limit })
    return this.#store.read(function* (tx) {
      const rows = yield* tx.records.list(SLOT, runId(name, after), limit)
      return rows.map(slotOfRow).filter(({ schedule }) => schedule === name)
    })
  }

  async lastSlots(name: string, limit: number, before?: number): Promise<readonly SlotRecord[]> {
    checkName('name', name)
    checkPage({ limit })
    if (before !== undefined) checkTime('before', before)
    // No time sorts behind a tilde.
    const end = before === undefined ? `${name}@~` : runId(name, before)
    return this.#store.read(function* (tx) {
      const rows = yield* tx.records.listBack(SLOT, end, limit)
      const slots = rows.map(slotOfRow).filter(({ schedule }) => schedule === name)
      return slots.sort((a, b) => a.slot - b.slot)
    })
  }

  async prune(keepMs: number, limit: number): Promise<void> {
    await this.#store.write(function* (tx) {
      const now = yield* tx.clock.now()
      // Slots are small, and those of frequent schedules are more than the tasks that go with them.
      yield* tx.records.dropClosed(SLOT, now - keepMs, 2 * limit)
      yield* tx.records.dropClosed(MISSED, now - keepMs, limit)
    })
  }

  /** Changes a schedule on record, by a rule. Returns whether there is one. */
  async #change(
    name: string,
    by: By,
    event_type: 'schedule_paused' | 'schedule_resumed' | 'schedule_removed',
    rule: (state: ScheduleState, at: AtChange) => ScheduleChange | 'drop' | undefined,
  ): Promise<boolean> {
    checkName('name', name)
    checkPerson(by)
    return this.#store.write(function* (tx) {
      const [state] = yield* lockSchedules(tx, [name])
      if (state === undefined) return false
      const at = { now: yield* tx.clock.now(), unfinished: yield* unfinishedOf(tx, [state]) }
      const result = rule(state, at)
      if (result === undefined) return true
      if (result === 'drop') {
        yield* tx.records.drop(SCHEDULE, [name])
        yield* tx.records.drop(BROKEN, [name])
      } else yield* tellOf(tx, yield* saveChanges(tx, [result], at.now))
      yield* tx.audit.append(scheduleRecord({ event_type, schedule: name }, by, at.now), at.now)
      return true
    })
  }
}

/** The results of these, one by one, until the sum of their sizes is reached. */
function upTo<T, Result>(most: number, all: readonly T[], of: (one: T) => readonly [Result, number]): Result[] {
  const results: Result[] = []
  let sum = 0
  for (const one of all) {
    const [result, size] = of(one)
    results.push(result)
    sum += size
    if (sum >= most) break
  }
  return results
}

/** A schedule with the timetable that it has had so far; without slots, if its times are such that none can be made here. */
function withTimes(state: ScheduleState, timetables: Timetables) {
  try {
    return { state, timetable: timetables(state) }
  } catch {
    const none = () => undefined
    return {
      state,
      timetable: { next: none, previous: none, localTime: (slot: number) => new Date(slot).toISOString().slice(0, 19) },
    }
  }
}

function recordOf({ declared, ...state }: ScheduleState): ScheduleRecord {
  if (declared === undefined) return state
  const { hash: _, ...rest } = declared
  return { ...state, declared: rest }
}

function checkPerson(by: By): void {
  checkName('who', by?.who)
  checkBy(by)
}
