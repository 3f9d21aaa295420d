import type { By } from '../contract/ledger.js'
import type { Page, PageRequest } from '../contract/list.js'
import type {
  Declared,
  FiredSlots,
  ScheduleRecord,
  ScheduleSpec,
  ScheduleStore,
  SlotRecord,
  StartedRun,
  Timetables,
} from '../contract/schedule-store.js'
import type { Steps, Transactions, Tx } from '../port/steps.js'
import { checkBy, checkName, checkNewTask, checkPage, checkTime } from '../rules/check.js'
import { recordedIds, scheduleRecord } from '../rules/operator-record.js'
import { type AtChange, change, create, declare, pause, resume } from '../rules/schedules/change-schedule.js'
import { isMissed, missedRecord, startedNow, tryToFire } from '../rules/schedules/firing.js'
import { SCHEDULE, SLOT, scheduleRow, scheduleState, slotOfRow, slotRow } from '../rules/schedules/schedule-rows.js'
import {
  runId,
  type ScheduleChange,
  type ScheduleState,
  type UnfinishedRuns,
} from '../rules/schedules/schedule-state.js'
import { cancelTasks } from './runs.js'

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
    specs.forEach(checkSpec)
    return this.#store.write(function* (tx) {
      const known = new Map(
        (yield* lock(
          tx,
          specs.map(({ name }) => name),
        )).map(state => [state.name, state]),
      )
      const at = { now: yield* tx.clock.now(), unfinished: yield* unfinishedOf(tx, [...known.values()]), release }
      const changes = specs.map(spec => {
        const state = known.get(spec.name)
        return declare(state && withTimes(state, timetables), spec, timetables(spec), at)
      })
      yield* save(tx, changes, at.now)
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
    checkSpec(spec)
    checkPerson(by)
    return this.#store.write(function* (tx) {
      const [before] = yield* lock(tx, [spec.name])
      const at = { now: yield* tx.clock.now(), unfinished: yield* unfinishedOf(tx, before ? [before] : []) }
      const table = timetables(spec)
      const result = before ? change(withTimes(before, timetables), spec, table, at) : create(spec, table, at.now)
      yield* save(tx, [result], at.now)
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

  async run(name: string, by: By): Promise<StartedRun | undefined> {
    checkName('name', name)
    checkPerson(by)
    const started = await this.#store.write(function* (tx): Steps<StartedRun | undefined> {
      const [state] = yield* lock(tx, [name])
      if (state === undefined) return undefined
      const now = yield* tx.clock.now()
      const unfinished = yield* unfinishedOf(tx, [state])
      const busy = state.runs.findLast(id => unfinished.has(id))
      if (busy !== undefined && state.overlap !== 'allow') return { unfinished: busy }
      const { id, ...result } = startedNow(state, by, { now, unfinished })
      yield* save(tx, [result], now)
      const act = { event_type: 'schedule_run', schedule: name, runs: recordedIds([id]) } as const
      yield* tx.audit.append(scheduleRecord(act, by, now), now)
      return { id }
    })
    if (started !== undefined && 'id' in started) this.#ring()
    return started
  }

  async backfill(name: string, slots: readonly number[], by: By, timetables: Timetables): Promise<readonly string[]> {
    checkName('name', name)
    checkPerson(by)
    for (const slot of slots) checkTime('slots', slot)
    const ids = await this.#store.write(function* (tx) {
      const [state] = yield* lock(tx, [name])
      if (state === undefined) return []
      const now = yield* tx.clock.now()
      const known = yield* tx.records.lock(
        SLOT,
        slots.map(slot => runId(name, slot)),
      )
      const haveRun = new Set(known.map(slotOfRow).flatMap(({ end, slot }) => (end === 'ran' ? [slot] : [])))
      const table = timetables(state)
      const reason = `it was backfilled by ${by.who}${by.why === undefined ? '' : `: ${by.why}`}`
      const records = slots
        .filter(slot => !haveRun.has(slot))
        .map((slot): SlotRecord => {
          const localTime = table.localTime(slot)
          return {
            schedule: name,
            slot,
            localTime,
            end: 'ran',
            reason,
            at: now,
            isCatchUp: true,
            generation: state.generation,
          }
        })
      const runs = records.map(({ slot }) => ({ ...state.task, id: runId(name, slot) }))
      runs.forEach(checkNewTask)
      const isNew = yield* tx.tasks.enqueue(runs, now)
      const fresh = records.filter((_, n) => isNew[n])
      yield* tx.records.save(SLOT, fresh.map(slotRow))
      const started = fresh.map(({ slot }) => runId(name, slot))
      if (started.length > 0) {
        const act = { event_type: 'schedule_backfilled', schedule: name, runs: recordedIds(started) } as const
        yield* tx.audit.append(scheduleRecord(act, by, now), now)
      }
      return started
    })
    if (ids.length > 0) this.#ring()
    return ids
  }

  async fire(limit: number, timetables: Timetables): Promise<FiredSlots> {
    checkPage({ limit })
    const fired = await this.#store.write(function* (tx) {
      const now = yield* tx.clock.now()
      const due = (yield* tx.records.lockDue(SCHEDULE, now, limit)).map(scheduleState)
      if (due.length === 0) return { slots: [], hasMore: false, started: 0 }
      const unfinished = yield* unfinishedOf(tx, due)
      const changes = due.map(state => tryToFire(state, timetables, { now, unfinished }))
      const slots = yield* save(tx, changes, now)
      for (const { state, slots: ended } of changes) {
        const missed = ended.filter(isMissed)
        if (missed.length > 0) yield* tx.audit.append(missedRecord(state.name, missed, now), now)
      }
      return { slots, hasMore: due.length === limit, started: slots.filter(({ end }) => end === 'ran').length }
    })
    if (fired.started > 0) this.#ring()
    return { slots: fired.slots, hasMore: fired.hasMore }
  }

  async next(): Promise<{ readonly now: number; readonly dueAt: number | undefined }> {
    return this.#store.read(function* (tx) {
      return { now: yield* tx.clock.now(), dueAt: yield* tx.records.nextPlace(SCHEDULE) }
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

  async prune(keepMs: number, limit: number): Promise<void> {
    await this.#store.write(function* (tx) {
      const now = yield* tx.clock.now()
      // Slots are small, and those of frequent schedules are more than the tasks that go with them.
      yield* tx.records.dropClosed(SLOT, now - keepMs, 2 * limit)
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
      const [state] = yield* lock(tx, [name])
      if (state === undefined) return false
      const at = { now: yield* tx.clock.now(), unfinished: yield* unfinishedOf(tx, [state]) }
      const result = rule(state, at)
      if (result === undefined) return true
      if (result === 'drop') yield* tx.records.drop(SCHEDULE, [name])
      else yield* save(tx, [result], at.now)
      yield* tx.audit.append(scheduleRecord({ event_type, schedule: name }, by, at.now), at.now)
      return true
    })
  }
}

function* lock(tx: Tx, names: readonly string[]): Steps<ScheduleState[]> {
  return (yield* tx.records.lock(SCHEDULE, names)).map(scheduleState)
}

function* unfinishedOf(tx: Tx, states: readonly ScheduleState[]): Steps<UnfinishedRuns> {
  const ids = states.flatMap(({ runs }) => runs)
  return new Map(ids.length === 0 ? [] : (yield* tx.tasks.unfinished(ids)).map(task => [task.id, task]))
}

/** Writes what follows from changes of schedules. Returns the slots that have ended. */
function* save(tx: Tx, changes: readonly ScheduleChange[], now: number): Steps<SlotRecord[]> {
  for (const { state, cancel, cancelled } of changes) {
    if (cancel.length > 0) yield* cancelRuns(tx, state.name, cancel, cancelled, now)
  }
  const tasks = changes.flatMap(change => change.tasks)
  const isNew = tasks.length === 0 ? [] : yield* tx.tasks.enqueue(tasks, now)
  const taken = tasks.flatMap(({ id = '' }, n) => (isNew[n] ? [] : [id]))
  // The id of a slot that was backfilled is taken, and its record is there.
  const known = new Set(taken.length === 0 ? [] : (yield* tx.records.lock(SLOT, taken)).map(({ id }) => id))
  const slots = changes
    .flatMap(change => change.slots)
    .flatMap((slot): SlotRecord[] => {
      const id = runId(slot.schedule, slot.slot)
      if (slot.end !== 'ran' || !taken.includes(id)) return [slot]
      return known.has(id)
        ? []
        : [{ ...slot, end: 'skipped', reason: 'a task with the id of its run was there already' }]
    })
  if (slots.length > 0) yield* tx.records.save(SLOT, slots.map(slotRow))
  yield* tx.records.save(
    SCHEDULE,
    changes.map(({ state }) => scheduleRow(state)),
  )
  return slots
}

/** Cancels runs of a schedule. The slots of those that had not begun end otherwise then. */
function* cancelRuns(
  tx: Tx,
  name: string,
  ids: readonly string[],
  cancelled: ScheduleChange['cancelled'],
  now: number,
): Steps<void> {
  const before = yield* tx.tasks.unfinished(ids)
  yield* cancelTasks(tx, ids, { who: `schedule ${name}`, why: cancelled?.reason ?? 'the schedule was changed' }, now)
  const unbegun = before.flatMap(({ id, hasBegun }) => (hasBegun ? [] : [id]))
  if (unbegun.length === 0 || cancelled === undefined) return
  const slots = (yield* tx.records.lock(SLOT, unbegun)).map(slotOfRow)
  if (slots.length > 0)
    yield* tx.records.save(
      SLOT,
      slots.map(slot => slotRow({ ...slot, ...cancelled, at: now })),
    )
}

/** A schedule with the timetable that it has had so far; without slots, if its times are such that none can be made here. */
function withTimes(state: ScheduleState, timetables: Timetables) {
  try {
    return { state, timetable: timetables(state) }
  } catch {
    const none = () => undefined
    return {
      state,
      timetable: { next: none, previous: none, localTime: (slot: number) => new Date(slot).toISOString() },
    }
  }
}

function recordOf({ declared, ...state }: ScheduleState): ScheduleRecord {
  if (declared === undefined) return state
  const { hash: _, ...rest } = declared
  return { ...state, declared: rest }
}

function checkSpec(spec: ScheduleSpec): void {
  checkName('name', spec.name)
  checkNewTask(spec.task)
}

function checkPerson(by: By): void {
  checkName('who', by?.who)
  checkBy(by)
}
