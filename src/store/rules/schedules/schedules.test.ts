import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { timetable } from '../../../calendar/internal.js'
import type { ScheduleSpec, Timetable } from '../../contract/schedule-store.js'
import { change, create, declare, pause, resume } from './change-schedule.js'
import { MAX_SLOTS } from './due-slots.js'
import { fire } from './fire.js'
import { type RunState, runId, type ScheduleChange, type ScheduleState, spreadOf } from './schedule-state.js'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const T0 = Date.parse('2026-06-01T00:00:00Z')
const NONE: ReadonlyMap<string, RunState> = new Map()

const hourly: ScheduleSpec = {
  name: 'hourly',
  times: { cron: '0 * * * *' },
  timeZone: 'UTC',
  task: { kind: 'report', payload: 'null' },
  catchUp: 'last',
  catchUpWithinMs: DAY,
  overlap: 'allow',
  spreadMs: 0,
}

/** A schedule with a clock and runs that take as long as the test says. */
class Scene {
  state: ScheduleState
  table: Timetable
  now = T0 + HOUR / 2
  readonly unfinished = new Map<string, RunState>()
  readonly ends: string[] = []
  readonly started: string[] = []
  readonly cancelled: string[] = []

  constructor(options: Partial<ScheduleSpec> = {}) {
    const spec = { ...hourly, ...options }
    this.table = timetable(spec)
    this.state = create(spec, this.table, this.now).state
  }

  /** Fires at an hour after the start. */
  at(hours: number): this {
    this.now = T0 + hours * HOUR
    return this.apply(fire(this.state, this.table, this))
  }

  apply({ state, slots, tasks, cancel }: ScheduleChange): this {
    this.state = state
    for (const { slot, until, end, isCatchUp } of slots) {
      const hours = (at: number) => (at - T0) / HOUR
      this.ends.push(`${hours(slot)}${until === undefined ? '' : `-${hours(until)}`} ${end}${isCatchUp ? ' late' : ''}`)
    }
    for (const { id = '' } of tasks) {
      this.started.push(id)
      this.unfinished.set(id, { isRunning: false, hasBegun: false })
    }
    for (const id of cancel) {
      this.cancelled.push(id)
      if (!this.unfinished.get(id)?.isRunning) this.unfinished.delete(id)
    }
    return this
  }

  /** The run of an hour begins. */
  begins(hours: number): this {
    this.unfinished.set(this.run(hours), { isRunning: true, hasBegun: true })
    return this
  }

  /** The run of an hour ends: it succeeds, dies or is cancelled. */
  finishes(hours: number): this {
    this.unfinished.delete(this.run(hours))
    return this
  }

  run(hours: number): string {
    return runId(this.state.name, T0 + hours * HOUR)
  }
}

describe('a slot', () => {
  it('fires once it is due, not 1 ms before', () => {
    expect(new Scene().at(1 - 1 / HOUR).ends).toEqual([])
    expect(new Scene().at(1).ends).toEqual(['1 ran'])
    expect(new Scene().at(1 + 1 / HOUR).ends).toEqual(['1 ran'])
  })

  it('has a run whose id is made of the schedule and the slot', () => {
    expect(new Scene().at(1).started).toEqual(['hourly@2026-06-01T01:00:00Z'])
  })

  it('fires once, however often it is asked, and whatever the clock does', () => {
    const scene = new Scene().at(1).at(1).at(2).at(0).at(-1).at(1.5).at(2)
    expect(scene.ends).toEqual(['1 ran', '2 ran'])
    expect(scene.at(3).ends.at(-1)).toBe('3 ran')
  })

  it('says when the next one is due', () => {
    const scene = new Scene()
    expect(scene.state.dueAt).toBe(T0 + HOUR)
    expect(scene.at(1).state.dueAt).toBe(T0 + 2 * HOUR)
  })

  it('is not invented after the end', () => {
    const scene = new Scene({ endAt: T0 + 2 * HOUR }).at(5)
    expect(scene.ends).toEqual(['1 ran late'])
    expect(scene.state.dueAt).toBeUndefined()
  })

  it('is spread by a time that depends on the name, and keeps its nominal time', () => {
    const scene = new Scene({ spreadMs: HOUR / 2 })
    const offset = spreadOf(scene.state) / HOUR
    expect(offset).toBeGreaterThan(0)
    expect(offset).toBeLessThan(0.5)
    expect(scene.at(1 + offset - 1 / HOUR).ends).toEqual([])
    expect(scene.at(1 + offset).started).toEqual(['hourly@2026-06-01T01:00:00Z'])
  })
})

describe('after a day without workers', () => {
  it.each([
    ['skip', 23, []],
    ['last', 23, ['24 ran late']],
    ['all', 0, Array.from({ length: 24 }, (_, n) => `${n + 1} ran late`)],
  ] as const)('catchUp: %s', (catchUp, missed, ran) => {
    const { ends } = new Scene({ catchUp }).at(24.5)
    expect(ends.filter(end => end.endsWith('late'))).toEqual(ran)
    expect(ends.filter(end => end.endsWith('missed'))).toHaveLength(catchUp === 'skip' ? 24 : missed)
  })

  it('runs a slot that is due right now, whatever else was missed', () => {
    expect(new Scene({ catchUp: 'skip' }).at(24).ends.at(-1)).toBe('24 ran')
    expect(new Scene({ catchUp: 'last' }).at(24).ends.at(-1)).toBe('24 ran')
  })

  it('catches up no further than it may', () => {
    const { ends } = new Scene({ catchUp: 'all', catchUpWithinMs: 3 * HOUR }).at(24.5)
    expect(ends.filter(end => end.endsWith('late'))).toEqual(['22 ran late', '23 ran late', '24 ran late'])
    expect(new Scene({ times: { cron: '0 6 * * *' }, catchUpWithinMs: HOUR }).at(24).ends).toEqual(['6 missed'])
  })

  it('has every slot on record, of however many years', () => {
    const scene = new Scene({ times: { everyMs: 60_000 }, catchUp: 'all' }).at(3 * 365 * 24)
    const last = T0 + 3 * 365 * DAY
    expect(scene.ends).toHaveLength(MAX_SLOTS + 1)
    const firstKept = (last - T0) / HOUR - (MAX_SLOTS - 1) / 60
    expect(scene.ends[0]).toBe(`${0.5 + 1 / 60}-${(Math.round(firstKept * 60) - 1) / 60} missed`)
    expect(scene.started).toHaveLength(MAX_SLOTS)
    expect(scene.state.cursor).toBe(last)
  })
})

describe('while an earlier run has not finished', () => {
  it('allow: both run', () => {
    expect(new Scene().at(1).begins(1).at(2).ends).toEqual(['1 ran', '2 ran'])
  })

  it('skip: the slot ends as overlapped, until the run has finished', () => {
    const scene = new Scene({ overlap: 'skip' }).at(1).begins(1).at(2).at(3)
    expect(scene.ends).toEqual(['1 ran', '2 overlapped', '3 overlapped'])
    expect(scene.finishes(1).at(4).ends.at(-1)).toBe('4 ran')
  })

  it('after: one slot waits for it, and no second one', () => {
    const scene = new Scene({ overlap: 'after' }).at(1).begins(1).at(2)
    expect(scene.ends).toEqual(['1 ran'])
    expect(scene.state.dueAt).toBe(T0 + 2 * HOUR + 1000)
    expect(scene.at(2.5).at(3).ends).toEqual(['1 ran', '3 overlapped'])
    expect(scene.finishes(1).at(3.1).ends.at(-1)).toBe('2 ran')
    expect(scene.finishes(2).at(4).ends.at(-1)).toBe('4 ran')
    expect(scene.started).toEqual([1, 2, 4].map(hours => scene.run(hours)))
  })

  it('after: it looks less often for the end of a run that takes long', () => {
    const scene = new Scene({ overlap: 'after', times: { cron: '0 0,1,2 * * *' } }).at(1).begins(1).at(2)
    const looks = [2 + 1 / 3600, 2.1, 2.5, 8].map(hours => {
      scene.at(hours)
      return (scene.state.dueAt ?? 0) - scene.now
    })
    expect(looks).toEqual([1000, 36_000, 60_000, 60_000])
  })

  it('replace: it is cancelled, and the slot waits for its end', () => {
    const scene = new Scene({ overlap: 'replace' }).at(1).begins(1).at(2)
    expect(scene.cancelled).toEqual([scene.run(1)])
    expect(scene.ends).toEqual(['1 ran'])
    expect(scene.finishes(1).at(2.1).ends).toEqual(['1 ran', '2 ran'])
  })

  it('replace: a run that waits, in a backoff too, is cancelled at once', () => {
    const scene = new Scene({ overlap: 'replace' }).at(1).at(2)
    expect(scene.cancelled).toEqual([scene.run(1)])
    expect(scene.ends).toEqual(['1 ran', '2 ran'])
  })

  it('replace: a slot that waits for a run to stop is replaced too', () => {
    const scene = new Scene({ overlap: 'replace' }).at(1).begins(1).at(2).at(3)
    expect(scene.ends).toEqual(['1 ran', '2 overlapped'])
    expect(scene.finishes(1).at(3.1).ends.at(-1)).toBe('3 ran')
  })
})

it('remembers the last thousand runs of a schedule whose runs nobody starts', () => {
  const scene = new Scene({ times: { everyMs: 60_000 }, catchUp: 'all' }).at(12).at(24).at(36)
  expect(scene.state.runs).toHaveLength(1000)
  expect(scene.state.runs.at(-1)).toBe(scene.run(36))
})

describe('a pause', () => {
  const by = { who: 'anna', why: 'deploy freeze' }

  it('skips its slots, and catches none of them up', () => {
    const scene = new Scene({ catchUp: 'all' }).at(1)
    scene.state = pause(scene.state, by, scene.now)
    expect(scene.at(3).ends).toEqual(['1 ran', '2 skipped', '3 skipped'])
    scene.now = T0 + 4.5 * HOUR
    scene.apply(resume(scene.state, scene.table, scene))
    expect(scene.at(5).ends).toEqual(['1 ran', '2 skipped', '3 skipped', '4 skipped', '5 ran'])
  })

  it('says who paused it, and why', () => {
    const scene = new Scene()
    scene.state = pause(scene.state, by, scene.now)
    scene.now = T0 + HOUR
    const [slot] = fire(scene.state, scene.table, scene).slots
    expect(slot?.reason).toBe('the schedule was paused by anna: deploy freeze')
  })

  it('keeps the first who paused it, and ends once', () => {
    const scene = new Scene()
    const paused = pause(scene.state, by, scene.now)
    expect(pause(paused, { who: 'bert' }, scene.now)).toBe(paused)
    const resumed = resume(paused, scene.table, scene)
    expect(resume(resumed.state, scene.table, scene)).toMatchObject({ state: resumed.state, slots: [] })
  })

  it('skips a slot that waits', () => {
    const scene = new Scene({ overlap: 'after' }).at(1).begins(1).at(2)
    scene.state = pause(scene.state, by, scene.now)
    expect(scene.finishes(1).at(2.5).ends).toEqual(['1 ran', '2 skipped'])
  })
})

describe('another definition', () => {
  const changed = (scene: Scene, options: Partial<ScheduleSpec>) => {
    const spec = { ...hourly, ...options }
    const table = timetable(spec)
    scene.apply(change({ state: scene.state, timetable: scene.table }, spec, table, scene))
    scene.table = table
    return scene
  }

  it('begins a new generation from now on, and skips runs that have not begun', () => {
    const scene = new Scene().at(1)
    changed(scene, { times: { cron: '30 * * * *' } })
    expect(scene.state.generation).toBe(2)
    expect(scene.cancelled).toEqual([scene.run(1)])
    expect(scene.at(1.5).ends).toEqual(['1 ran', '1.5 ran'])
  })

  it('leaves a run alone that has begun', () => {
    expect(changed(new Scene().at(1).begins(1), { timeZone: 'Asia/Kolkata' }).cancelled).toEqual([])
  })

  it('has slots on record that were due before', () => {
    const scene = new Scene()
    scene.now = T0 + 2.5 * HOUR
    changed(scene, { task: { kind: 'report', payload: '1' } })
    expect(scene.ends).toEqual(['1 skipped', '2 skipped'])
    expect(scene.at(3).ends.at(-1)).toBe('3 ran')
  })

  it('fires nothing, and stays the same generation, where only its rules change', () => {
    const scene = changed(new Scene().at(1), { catchUp: 'all', overlap: 'skip', priority: 1 } as Partial<ScheduleSpec>)
    expect(scene.state).toMatchObject({ generation: 1, overlap: 'skip', cursor: T0 + HOUR })
    expect(scene.ends).toEqual(['1 ran'])
    expect(scene.cancelled).toEqual([])
  })

  it('and back again is a third generation, which fires nothing twice', () => {
    const scene = new Scene().at(1).begins(1)
    changed(scene, { times: { cron: '30 * * * *' } })
    changed(scene, {})
    expect(scene.state.generation).toBe(3)
    expect(scene.at(1.5).at(2).ends).toEqual(['1 ran', '2 ran'])
  })

  it('takes back an end', () => {
    const scene = new Scene({ endAt: T0 + 2 * HOUR }).at(5)
    expect(changed(scene, {}).state).toMatchObject({ dueAt: T0 + 2 * HOUR })
    expect(scene.state.endAt).toBeUndefined()
  })
})

describe('a declaration', () => {
  const table = timetable(hourly)
  const half = { ...hourly, times: { cron: '30 * * * *' } }
  const at = (hours: number, release?: string) => {
    return { now: T0 + hours * HOUR, unfinished: NONE, release, worker: 'w1', live: new Set(['w1']) }
  }
  const first = declare(undefined, hourly, table, at(0.5, '1.2.0')).state

  it('is the same at every start of the same code', () => {
    const again = declare({ state: first, timetable: table }, hourly, table, at(3, '1.2.0'))
    const declared = { ...first.declared, at: T0 + 3 * HOUR }
    expect(again).toMatchObject({ outcome: 'unchanged', state: { ...first, declared } })
  })

  it('of a newer release wins, and an older one does not take it back', () => {
    const newer = declare({ state: first, timetable: table }, half, timetable(half), at(1, '1.3.0'))
    expect(newer).toMatchObject({ outcome: 'changed', state: { generation: 2 } })
    const older = declare({ state: newer.state, timetable: timetable(half) }, hourly, table, at(2, '1.2.9'))
    expect(older).toMatchObject({ outcome: 'kept', state: newer.state })
  })

  it('tells which workers have it in their code, as far as they are alive', () => {
    const of = (state: ScheduleState, worker: string, live: string[], release?: string) =>
      declare({ state, timetable: table }, hourly, table, { ...at(2, release), worker, live: new Set(live) }).state
    const second = of(first, 'w2', ['w1'])
    expect(second.declared?.workers).toEqual(['w1', 'w2'])
    expect(of(second, 'w3', ['w2']).declared?.workers).toEqual(['w2', 'w3'])
    // An older release has it in its code too, and does not become the one that declared it last.
    expect(of(first, 'w0', ['w1'], '1.0.0').declared).toMatchObject({ release: '1.2.0', workers: ['w1', 'w0'] })
  })

  it('that is the same as the one before holds what was changed at run time', () => {
    const byHand = change({ state: first, timetable: table }, half, timetable(half), at(1)).state
    const again = declare({ state: byHand, timetable: timetable(half) }, hourly, table, at(2, '1.2.0'))
    expect(again).toMatchObject({ outcome: 'unchanged', state: { times: half.times } })
  })
})

describe('whatever happens', () => {
  const specs = fc.record({
    times: fc.constantFrom(
      { cron: '0 * * * *' },
      { cron: '*/7 * * * *' },
      { everyMs: 1_800_000 },
      { cron: '30 2 * * *' },
    ),
    timeZone: fc.constantFrom('UTC', 'Europe/Berlin', 'Africa/Cairo'),
    catchUp: fc.constantFrom('skip' as const, 'last' as const),
    overlap: fc.constantFrom('allow' as const, 'skip' as const, 'after' as const, 'replace' as const),
    spreadMs: fc.constantFrom(0, HOUR / 2),
    catchUpWithinMs: fc.constantFrom(0, 2 * HOUR, DAY),
  })
  const acts = fc.array(
    fc.oneof(
      {
        weight: 4,
        arbitrary: fc.record({ act: fc.constant('fire' as const), hours: fc.double({ min: -2, max: 9, noNaN: true }) }),
      },
      { weight: 2, arbitrary: fc.record({ act: fc.constantFrom('begin' as const, 'finish' as const) }) },
      { weight: 1, arbitrary: fc.record({ act: fc.constantFrom('pause' as const, 'resume' as const) }) },
    ),
    { maxLength: 30 },
  )

  it('each slot ends once, none is lost, and at most one run is there where they must not overlap', () => {
    fc.assert(
      fc.property(specs, acts, (options, steps) => {
        const scene = new Scene(options)
        const start = scene.now
        const ended: number[] = []
        const apply = (result: ScheduleChange) => {
          ended.push(...result.slots.filter(({ until }) => until === undefined).map(({ slot }) => slot))
          scene.apply(result)
        }
        for (const step of steps) {
          const [oldest] = scene.unfinished.keys()
          if (step.act === 'fire') {
            scene.now += Math.round(step.hours * HOUR)
            apply(fire(scene.state, scene.table, scene))
          } else if (step.act === 'pause') scene.state = pause(scene.state, { who: 'anna' }, scene.now)
          else if (step.act === 'resume') apply(resume(scene.state, scene.table, scene))
          else if (oldest !== undefined && step.act === 'begin')
            scene.unfinished.set(oldest, { isRunning: true, hasBegun: true })
          else if (oldest !== undefined) scene.unfinished.delete(oldest)
          if (scene.state.overlap !== 'allow') expect(scene.unfinished.size).toBeLessThanOrEqual(1)
        }
        const due: number[] = []
        for (let at = scene.table.next(start); at !== undefined && at <= scene.state.cursor; at = scene.table.next(at))
          due.push(at)
        const waiting = scene.state.waiting === undefined ? [] : [scene.state.waiting]
        expect([...ended, ...waiting].sort((a, b) => a - b)).toEqual(due)
        expect(new Set(scene.started).size).toBe(scene.started.length)
        expect(scene.state.dueAt).toBeGreaterThan(scene.state.cursor)
      }),
      { numRuns: 300 },
    )
  })
})
