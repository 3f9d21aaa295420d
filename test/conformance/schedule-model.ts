import assert from 'node:assert/strict'
import { timetable } from '../../src/calendar/internal.js'
import type { Retention } from '../../src/store/index.js'
import type { ScheduleSpec, SlotEnd, SlotRecord, StoreContract } from '../../src/store/internal.js'
import { assertSame } from './harness.js'
import type { ModelTask, StoreModel } from './model.js'

/** A schedule of the model test: an interval that counts from the epoch. */
export type ModelSpec = Pick<ScheduleSpec, 'name' | 'catchUp' | 'catchUpWithinMs' | 'overlap' | 'task'> & {
  readonly everyMs: number
}

/** A step of the model test that concerns schedules. */
export type ScheduleStep =
  | { readonly act: 'set' | 'declare'; readonly spec: ModelSpec }
  | { readonly act: 'pause' | 'resume' | 'remove'; readonly name: string }
  | { readonly act: 'fire' }

interface ModelSchedule {
  spec: ModelSpec
  /** The declaration that holds until code declares another one, as text. */
  declared: string | undefined
  generation: number
  /** Slots up to here have ended, apart from one that waits. */
  upTo: number
  waiting: number | undefined
  /** Runs that had not finished at any firing since they began. */
  runs: string[]
  isPaused: boolean
}

type Ended = Pick<SlotRecord, 'end' | 'at' | 'generation'>

const BY = { who: 'ann' }
/** A slot that is at most this late is in time, whatever its schedule says. */
const IN_TIME_MS = 60_000

/** What schedules of a store should do, written as simply as possible. */
export class ScheduleModel {
  readonly #schedules = new Map<string, ModelSchedule>()
  /** How the slots ended, by the ids of their runs. */
  readonly #slots = new Map<string, Ended>()
  /** The ends that no firing has told of so far. */
  #untold: string[] = []
  /** The runs that the present firing starts. */
  readonly #fresh = new Set<string>()
  readonly #model: StoreModel

  constructor(model: StoreModel) {
    this.#model = model
  }

  /** Takes a step in the store and here, and compares the answers. */
  async apply(step: ScheduleStep, store: StoreContract): Promise<void> {
    const { schedules } = store
    this.#fresh.clear()
    switch (step.act) {
      case 'set':
        this.#set(step.spec)
        await schedules.set(specOf(step.spec), BY, timetable)
        return
      case 'declare': {
        const expected = [this.#declare(step.spec)]
        return assert.deepEqual(await schedules.declare([specOf(step.spec)], { worker: 'w1' }, timetable), expected)
      }
      case 'pause':
      case 'resume':
      case 'remove': {
        const expected = this.#change(step.name, step.act)
        return assert.equal(
          await schedules[step.act](step.name, BY, timetable),
          expected,
          `whether ${step.name} exists`,
        )
      }
      case 'fire': {
        // A schedule whose slot waits looks from time to time whether it can run.
        for (const [name, schedule] of this.#schedules) {
          const { dueAt = Infinity } = (await schedules.get(name)) ?? {}
          if (dueAt <= this.#model.now) this.#fire(schedule)
        }
        const { slots, news } = await schedules.fire(1000, timetable)
        const told = [...news, ...slots].map(slot => `${runOf(slot.schedule, slot.slot)} ${slot.end}`)
        assertSame(told, this.#untold)
        this.#untold = []
        // In an ordered lane a task comes after all that were ever there.
        for (const run of this.#fresh)
          Object.assign(this.#model.tasks.get(run) ?? {}, { submittedAt: (await store.get(run))?.submittedAt })
      }
    }
  }

  prune({ endedMs = Infinity }: Retention): void {
    for (const [run, { at }] of this.#slots) if (at <= this.#model.now - endedMs) this.#slots.delete(run)
  }

  /** Compares the schedules, and the end of every slot. */
  async compare({ schedules }: StoreContract): Promise<void> {
    if (this.#schedules.size + this.#slots.size === 0) return
    const { items } = await schedules.list({ limit: 100 })
    assertSame(
      items.map(({ name }) => name),
      [...this.#schedules.keys()],
    )
    for (const { name, generation, waiting, cursor, paused, dueAt = Infinity } of items) {
      const known = this.#schedules.get(name)
      assert.ok(known !== undefined)
      const expected = [known.generation, known.waiting, known.upTo, known.isPaused]
      assert.deepEqual([generation, waiting, cursor, paused !== undefined], expected, `the schedule ${name}`)
      const nextSlot = slotsOf(known, known.upTo + known.spec.everyMs)[0] ?? 0
      const latest = waiting === undefined ? nextSlot : Math.min(nextSlot, this.#model.now + IN_TIME_MS)
      assert.ok(dueAt <= latest, `${name} is due at ${dueAt}, and should be by ${latest}`)
    }
    const names = [...new Set([...this.#slots.keys()].map(run => run.slice(0, run.indexOf('@'))))]
    const found = await Promise.all(names.map(name => schedules.slots(name, 0, 10_000)))
    const ends = found.flat().map(({ schedule, slot, until, end, at, generation }): [string, Ended] => {
      assert.equal(until, undefined, 'too few slots are due for a record of many')
      return [runOf(schedule, slot), { end, at, generation }]
    })
    assert.deepEqual(new Map(ends), this.#slots)
  }

  #set(spec: ModelSpec): void {
    const { now } = this.#model
    const before = this.#schedules.get(spec.name)
    if (before !== undefined && workOf(before.spec) !== workOf(spec)) this.#beginAnew(before)
    const fresh = { declared: undefined, generation: 1, upTo: now, waiting: undefined, runs: [], isPaused: false }
    this.#schedules.set(spec.name, { ...(before ?? fresh), spec })
  }

  #beginAnew(schedule: ModelSchedule): void {
    const { now } = this.#model
    const { waiting, runs } = schedule
    for (const slot of [...(waiting === undefined ? [] : [waiting]), ...slotsOf(schedule, now)])
      this.#end(schedule, slot, 'skipped')
    for (const run of runs) if (!hasBegun(this.#model.tasks.get(run))) this.#withdraw(run, 'skipped')
    Object.assign(schedule, { generation: schedule.generation + 1, upTo: now, waiting: undefined, runs: [] })
  }

  #declare(spec: ModelSpec): 'created' | 'changed' | 'unchanged' {
    const before = this.#schedules.get(spec.name)
    const text = JSON.stringify(spec)
    if (before?.declared === text) return 'unchanged'
    this.#set(spec)
    Object.assign(this.#schedules.get(spec.name) ?? {}, { declared: text })
    return before === undefined ? 'created' : 'changed'
  }

  /** Returns whether there is such a schedule. */
  #change(name: string, act: 'pause' | 'resume' | 'remove'): boolean {
    const schedule = this.#schedules.get(name)
    if (schedule === undefined) return false
    if (act === 'resume' && schedule.isPaused) this.#fire(schedule)
    schedule.isPaused = act === 'pause'
    if (act === 'remove') this.#schedules.delete(name)
    return true
  }

  /** Ends the slots that are due, each once. */
  #fire(schedule: ModelSchedule): void {
    const { now } = this.#model
    const { catchUp, catchUpWithinMs } = schedule.spec
    const slots = slotsOf(schedule, now)
    schedule.upTo = slots.at(-1) ?? schedule.upTo
    schedule.runs = schedule.runs.filter(run => this.#isUnfinished(run))
    const { waiting } = schedule
    if (waiting !== undefined && (schedule.isPaused || schedule.runs.length === 0)) {
      schedule.waiting = undefined
      if (schedule.isPaused) this.#end(schedule, waiting, 'skipped')
      else this.#run(schedule, waiting)
    }
    const windowMs = catchUp === 'skip' ? IN_TIME_MS : Math.max(IN_TIME_MS, catchUpWithinMs)
    for (const slot of slots) {
      const isMissed = now - slot > windowMs || (catchUp !== 'all' && slot !== slots.at(-1))
      if (schedule.isPaused) this.#end(schedule, slot, 'skipped')
      else if (isMissed) this.#end(schedule, slot, 'missed')
      else this.#start(schedule, slot)
    }
  }

  /** Runs a slot that is due now, unless an earlier run is in its way. */
  #start(schedule: ModelSchedule, slot: number): void {
    const { runs, waiting, spec } = schedule
    const isFree = runs.length === 0 && waiting === undefined
    if (isFree || spec.overlap === 'allow') return this.#run(schedule, slot)
    if (spec.overlap === 'skip') return this.#end(schedule, slot, 'overlapped')
    if (spec.overlap === 'after') {
      if (waiting === undefined) schedule.waiting = slot
      else this.#end(schedule, slot, 'overlapped')
      return
    }
    if (waiting !== undefined) this.#end(schedule, waiting, 'overlapped')
    for (const run of runs) this.#withdraw(run, 'overlapped')
    schedule.runs = runs.filter(run => this.#model.tasks.get(run)?.status === 'running')
    schedule.waiting = schedule.runs.length > 0 ? slot : undefined
    if (schedule.waiting === undefined) this.#run(schedule, slot)
  }

  #run(schedule: ModelSchedule, slot: number): void {
    const run = runOf(schedule.spec.name, slot)
    const { now } = this.#model
    assert.ok(this.#model.add({ ...schedule.spec.task, id: run, submittedAt: now, runAt: now }), `${run} runs twice`)
    schedule.runs = [...schedule.runs, run]
    this.#fresh.add(run)
    this.#end(schedule, slot, 'ran')
  }

  /** Cancels a run. One that has not begun changes the end of its slot. */
  #withdraw(run: string, end: SlotEnd): void {
    const hadBegun = hasBegun(this.#model.tasks.get(run))
    // Nobody sees the task of a run that begins and ends in one firing.
    if (this.#fresh.has(run)) this.#model.tasks.delete(run)
    else this.#model.cancel(run)
    const ended = this.#slots.get(run)
    if (hadBegun || ended === undefined) return
    if (this.#fresh.has(run)) this.#untold.splice(this.#untold.indexOf(`${run} ran`), 1)
    this.#note(run, { ...ended, end, at: this.#model.now })
  }

  #end({ spec, generation }: ModelSchedule, slot: number, end: SlotEnd): void {
    const run = runOf(spec.name, slot)
    assert.ok(!this.#slots.has(run), `the slot ${run} ends twice`)
    this.#note(run, { end, at: this.#model.now, generation })
  }

  #note(run: string, ended: Ended): void {
    this.#slots.set(run, ended)
    this.#untold.push(`${run} ${ended.end}`)
  }

  #isUnfinished(run: string): boolean {
    const { status } = this.#model.tasks.get(run) ?? {}
    return status === 'waiting' || status === 'running'
  }
}

/** The slots that have not ended so far, up to a time. */
function slotsOf({ spec: { everyMs }, upTo }: ModelSchedule, until: number): number[] {
  const first = Math.floor(upTo / everyMs) + 1
  const count = Math.max(0, Math.floor(until / everyMs) - first + 1)
  return Array.from({ length: count }, (_, n) => (first + n) * everyMs)
}

/** Whether a run is past its beginning, or over. */
function hasBegun(task: ModelTask | undefined): boolean {
  return task?.status !== 'waiting' || task.attempts + task.deferrals + task.losses > 0
}

function runOf(name: string, slot: number): string {
  return `${name}@${new Date(slot).toISOString().slice(0, 19)}Z`
}

/** What makes a generation. */
function workOf({ everyMs, task: { kind, key, payload } }: ModelSpec): string {
  return JSON.stringify([everyMs, kind, key, payload])
}

function specOf({ everyMs, ...spec }: ModelSpec): ScheduleSpec {
  return { ...spec, times: { everyMs }, timeZone: 'UTC', spreadMs: 0 }
}
