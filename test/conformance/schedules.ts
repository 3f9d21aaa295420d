import assert from 'node:assert/strict'
import { timetable } from '../../src/calendar/internal.js'
import type { ScheduleSpec, SlotRecord, StoreContract, Timetables } from '../../src/store/internal.js'
import { add, claim, claimIds, claimOne, entry, type StoreBehaviours } from './harness.js'

const MINUTE = 60_000
const BY = { who: 'anna', why: 'a test' }

/** A schedule that is due every minute, first in a minute from now. */
async function everyMinute(store: StoreContract, options: Partial<ScheduleSpec> = {}): Promise<ScheduleSpec> {
  const spec: ScheduleSpec = {
    name: 'tick',
    times: { everyMs: MINUTE },
    timeZone: 'UTC',
    startAt: (await store.now()) + MINUTE,
    task: { kind: 'k', payload: '{"a":1}' },
    catchUp: 'last',
    catchUpWithinMs: 60 * MINUTE,
    overlap: 'allow',
    spreadMs: 0,
    ...options,
  }
  await store.schedules.declare([spec], { worker: 'w1', release: '1.0.0' }, timetable)
  return spec
}

const fire = (store: StoreContract, limit = 100) => store.schedules.fire(limit, timetable)
const ends = (slots: readonly SlotRecord[]) => slots.map(({ end }) => end)
const slotsOf = (store: StoreContract, name = 'tick') => store.schedules.slots(name, 0, 1000)

/** An operation that starts the runs of these slots, its lease, and the step that does so. */
async function backfilling(store: StoreContract, slots: readonly number[], generation?: number) {
  const [first = 0] = slots
  const present = (await store.schedules.get('tick'))?.generation ?? 0
  const range = { from: first, to: (slots.at(-1) ?? 0) + 1, count: slots.length }
  const set = { schedule: 'tick', generation: generation ?? present, ...range }
  const { id, progress } = await store.operations.create({ act: 'backfill', set, by: BY })
  const { token = '' } = (await store.operations.take(id, 'w1', MINUTE)) ?? {}
  const open = slots.map(slot => ({ slot, localTime: new Date(slot).toISOString().slice(0, 19) }))
  return { id, token, step: { leaseMs: MINUTE, status: 'done', progress, slots: open } as const }
}

async function backfill(store: StoreContract, slots: readonly number[]) {
  const { id, token, step } = await backfilling(store, slots)
  const done = await store.operations.step(id, token, step)
  assert.ok(done)
  return done
}

async function finish(store: StoreContract): Promise<void> {
  const { id, token } = await claimOne(store)
  await store.settle([{ id, token, outcome: { type: 'succeeded' } }])
}

/** Recurring work. */
export const SCHEDULES: StoreBehaviours = {
  async 'a slot is fired once it is due, as a task whose id is the schedule and the slot'(store, advance) {
    const { startAt = 0 } = await everyMinute(store)
    assert.deepEqual(await fire(store), { slots: [], news: [], hasMore: false })
    await advance(MINUTE)
    const { slots } = await fire(store)
    const id = `tick@${new Date(startAt).toISOString().replace('.000Z', 'Z')}`
    assert.deepEqual(ends(slots), ['ran'])
    const task = await claimOne(store)
    assert.equal(task.id, id)
    assert.equal(task.payload, '{"a":1}')
    assert.deepEqual(await store.schedules.slotOf(id), slots[0])
    assert.equal(slots[0]?.slot, startAt)
    assert.deepEqual(await fire(store), { slots: [], news: [], hasMore: false })
  },

  async 'ten processes that fire at once start one run'(store, advance) {
    await everyMinute(store)
    await advance(MINUTE)
    const fired = await Promise.all(Array.from({ length: 10 }, () => fire(store)))
    assert.deepEqual(ends(fired.flatMap(({ slots }) => slots)), ['ran'])
    assert.equal((await claimIds(store)).length, 1)
    assert.equal((await slotsOf(store)).length, 1)
  },

  async 'it says when a schedule needs attention next'(store, advance) {
    assert.equal((await store.schedules.next()).dueAt, undefined)
    const { startAt = 0 } = await everyMinute(store)
    assert.deepEqual(await store.schedules.next(), { now: await store.now(), dueAt: startAt, hasNews: false })
    await advance(MINUTE)
    await fire(store)
    assert.equal((await store.schedules.next()).dueAt, startAt + MINUTE)
  },

  async 'at most so many schedules are fired at a time'(store, advance) {
    for (const name of ['a', 'b', 'c']) await everyMinute(store, { name })
    await advance(MINUTE)
    const first = await fire(store, 2)
    assert.deepEqual([first.slots.map(({ schedule }) => schedule), first.hasMore], [['a', 'b'], true])
    const second = await fire(store, 2)
    assert.deepEqual([second.slots.map(({ schedule }) => schedule), second.hasMore], [['c'], false])
  },

  async 'missed slots are on record, and in the audit log'(store, advance) {
    await everyMinute(store)
    await advance(3 * MINUTE)
    await fire(store)
    const slots = await slotsOf(store)
    assert.deepEqual(ends(slots), ['missed', 'missed', 'ran'])
    assert.ok(slots[0]?.reason?.includes('a later slot was due'))
    const audit = (await store.audit.page({ limit: 10 })).items.map(text => JSON.parse(text).event_type)
    assert.deepEqual(audit, ['schedule_created', 'slots_missed'])
  },

  async 'overlap: a run that waits or runs keeps the next slot from running, and one that has ended does not'(
    store,
    advance,
  ) {
    await everyMinute(store, { overlap: 'skip' })
    await advance(MINUTE)
    await fire(store)
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['overlapped'])
    const { id, token } = await claimOne(store)
    await advance(MINUTE)
    const { slots } = await fire(store)
    assert.deepEqual(ends(slots), ['overlapped'])
    assert.ok(slots[0]?.reason?.includes(id))
    await store.settle([{ id, token, outcome: { type: 'retry', delayMs: 5 * MINUTE, isBackoff: true } }])
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['overlapped'])
    await store.cancel([id])
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['ran'])
  },

  async 'overlap: a dead run does not block, and nothing more happens when it is redriven'(store, advance) {
    await everyMinute(store, { overlap: 'skip' })
    await advance(MINUTE)
    await fire(store)
    const { id, token } = await claimOne(store)
    await store.settle([{ id, token, outcome: { type: 'dead', reason: 'final_error' } }])
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['ran'])
    await store.redrive([id], BY)
    assert.equal((await claimIds(store)).length, 2)
  },

  async 'overlap: a dead run that is redriven while the next one runs counts for no later slot'(store, advance) {
    await everyMinute(store, { overlap: 'skip' })
    await advance(MINUTE)
    await fire(store)
    const dead = await claimOne(store)
    await store.settle([{ id: dead.id, token: dead.token, outcome: { type: 'dead', reason: 'final_error' } }])
    await advance(MINUTE)
    await fire(store)
    const next = await claimOne(store)
    await store.redrive([dead.id], BY)
    await advance(MINUTE)
    const { slots } = await fire(store)
    assert.deepEqual(ends(slots), ['overlapped'])
    assert.ok(slots[0]?.reason?.includes(next.id), `${slots[0]?.reason} should name ${next.id}`)
    await store.settle([{ id: next.id, token: next.token, outcome: { type: 'succeeded' } }])
    assert.equal((await claimOne(store)).id, dead.id)
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['ran'])
    assert.deepEqual(ends(await slotsOf(store)), ['ran', 'ran', 'overlapped', 'ran'])
  },

  async 'overlap after: a slot waits until the run before it has ended'(store, advance) {
    await everyMinute(store, { overlap: 'after' })
    await advance(MINUTE)
    await fire(store)
    await advance(MINUTE)
    assert.deepEqual((await fire(store)).slots, [])
    assert.notEqual((await store.schedules.get('tick'))?.waiting, undefined)
    await finish(store)
    await advance(1000)
    assert.deepEqual(ends((await fire(store)).slots), ['ran'])
    await finish(store)
  },

  async 'overlap replace: a run that has not begun is replaced, and its slot says so'(store, advance) {
    await everyMinute(store, { overlap: 'replace' })
    await advance(MINUTE)
    await fire(store)
    await advance(MINUTE)
    await fire(store)
    assert.deepEqual(ends(await slotsOf(store)), ['overlapped', 'ran'])
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'overlap replace: of slots that are caught up together the last one runs, and no run before it'(
    store,
    advance,
  ) {
    await everyMinute(store, { overlap: 'replace', catchUp: 'all' })
    await advance(MINUTE)
    await fire(store)
    await advance(3 * MINUTE)
    await fire(store)
    assert.deepEqual(ends(await slotsOf(store)), ['overlapped', 'overlapped', 'overlapped', 'ran'])
    assert.deepEqual(await claimIds(store), [(await store.schedules.get('tick'))?.runs[0]])
  },

  async 'overlap replace: a run that runs is told to end, and the next one waits for its end'(store, advance) {
    await everyMinute(store, { overlap: 'replace' })
    await advance(MINUTE)
    await fire(store)
    const { id, token } = await claimOne(store)
    await advance(MINUTE)
    await fire(store)
    assert.deepEqual(await store.cancelled('w1'), [token])
    assert.deepEqual(await claimIds(store), [])
    await store.settle([{ id, token, outcome: { type: 'cancelled' } }])
    await advance(1000)
    await fire(store)
    assert.equal((await claimIds(store)).length, 1)
    assert.deepEqual(ends(await slotsOf(store)), ['ran', 'ran'])
  },

  async 'a pause skips its slots, and they are not caught up'(store, advance) {
    await everyMinute(store, { catchUp: 'all' })
    assert.equal(await store.schedules.pause('tick', BY), true)
    await advance(2 * MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['skipped', 'skipped'])
    await advance(MINUTE)
    assert.equal(await store.schedules.resume('tick', BY, timetable), true)
    assert.deepEqual(ends(await slotsOf(store)), ['skipped', 'skipped', 'skipped'])
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['ran'])
    assert.equal(await store.schedules.pause('none', BY), false)
    assert.equal(await store.schedules.resume('none', BY, timetable), false)
  },

  async 'a pause and its end leave a queued run alone'(store, advance) {
    await everyMinute(store)
    await advance(MINUTE)
    await fire(store)
    await store.schedules.pause('tick', BY)
    await store.schedules.resume('tick', BY, timetable)
    assert.equal((await claimIds(store)).length, 1)
    assert.deepEqual(ends(await slotsOf(store)), ['ran'])
  },

  async 'a backfill runs the slots that did not run, and none of them twice'(store, advance) {
    const { startAt = 0 } = await everyMinute(store)
    await store.schedules.pause('tick', BY)
    await advance(3 * MINUTE)
    await store.schedules.resume('tick', BY, timetable)
    const slots = [0, 1, 2].map(n => startAt + n * MINUTE)
    const { moved, operation } = await backfill(store, slots)
    assert.equal(moved.length, 3)
    assert.deepEqual([operation.moved, operation.progress.refused], [3, {}])
    const again = await backfill(store, slots)
    assert.deepEqual(again.moved, [])
    assert.deepEqual([again.operation.moved, again.operation.progress.refused], [0, { has_run: 3 }])
    assert.equal((await claimIds(store)).length, 3)
    assert.deepEqual(ends(await slotsOf(store)), ['ran', 'ran', 'ran'])
    assert.match((await slotsOf(store))[0]?.reason ?? '', /^it was backfilled by anna: a test$/)
    await advance(MINUTE)
    assert.equal((await backfill(store, [startAt + 3 * MINUTE])).moved.length, 1)
    assert.deepEqual((await fire(store)).slots, [])
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'a slot that was backfilled before it was fired has run, whatever follows from those after it'(store, advance) {
    const { startAt = 0 } = await everyMinute(store)
    await advance(2 * MINUTE)
    await backfill(store, [startAt])
    await fire(store)
    assert.deepEqual(ends(await slotsOf(store)), ['ran', 'ran'])
    assert.equal((await claimIds(store)).length, 2)
  },

  async 'slots that were not fired are told of by the next firing, once'(store, advance) {
    const told = async () => {
      assert.equal((await store.schedules.next()).hasNews, true)
      const { news } = await fire(store)
      assert.equal((await store.schedules.next()).hasNews, false)
      assert.deepEqual((await fire(store)).news, [])
      return ends(news)
    }
    const spec = await everyMinute(store)
    await store.schedules.run('tick', BY, timetable)
    assert.deepEqual(await told(), ['ran'])
    await finish(store)
    await store.schedules.pause('tick', BY)
    await advance(2 * MINUTE)
    await store.schedules.resume('tick', BY, timetable)
    assert.deepEqual(await told(), ['skipped', 'skipped'])
    const { operation } = await backfill(store, [spec.startAt ?? 0])
    assert.deepEqual(await told(), ['ran'])
    await store.operations.undo(operation.id, { limit: 9 }, BY)
    assert.deepEqual(await told(), ['skipped'])
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['ran'])
    // The run that was fired has not begun, and the next slot is due.
    await advance(MINUTE)
    await store.schedules.set({ ...spec, task: { kind: 'k', payload: '2' } }, BY, timetable)
    assert.deepEqual(await told(), ['skipped', 'skipped'])
    await advance(MINUTE)
    await fire(store)
    await store.schedules.declare([{ ...spec, times: { everyMs: 2 * MINUTE } }], { worker: 'w1' }, timetable)
    assert.deepEqual(await told(), ['skipped'])
  },

  async 'a slot whose run is replaced ends again, in the firing that replaces it'(store, advance) {
    await everyMinute(store, { overlap: 'replace' })
    await advance(MINUTE)
    const first = await fire(store)
    await advance(MINUTE)
    const second = await fire(store)
    assert.deepEqual([ends(first.slots), ends(second.slots), second.news], [['ran'], ['overlapped', 'ran'], []])
    assert.equal(second.slots[0]?.slot, first.slots[0]?.slot)
  },

  async 'two backfills of the same slots at a time start each run once'(store, advance) {
    const { startAt = 0 } = await everyMinute(store)
    await store.schedules.pause('tick', BY)
    await advance(20 * MINUTE)
    await store.schedules.resume('tick', BY, timetable)
    const slots = Array.from({ length: 20 }, (_, n) => startAt + n * MINUTE)
    const both = await Promise.all([backfill(store, slots), backfill(store, slots)])
    const started = both.flatMap(({ moved }) => moved)
    assert.deepEqual([started.length, new Set(started).size], [20, 20])
    assert.equal((await store.count({})).waiting, 20)
  },

  async 'a backfill starts nothing without its lease, and nothing once its schedule is another one'(store, advance) {
    const spec = await everyMinute(store)
    const slot = spec.startAt ?? 0
    await store.schedules.pause('tick', BY)
    await advance(MINUTE)
    await store.schedules.resume('tick', BY, timetable)
    const { id, token, step } = await backfilling(store, [slot])
    assert.equal(await store.operations.step(id, 'another', step), undefined)
    await store.operations.change(id, 'stop', BY)
    assert.equal(await store.operations.step(id, token, step), undefined)
    await store.schedules.set({ ...spec, task: { kind: 'k', payload: '2' } }, BY, timetable)
    const late = await backfilling(store, [slot], 1)
    assert.deepEqual((await store.operations.step(late.id, late.token, late.step))?.moved, [])
    assert.equal((await store.count({})).waiting, 0)
    assert.deepEqual(ends(await slotsOf(store)), ['skipped'])
  },

  async 'undo of a backfill cancels the runs that have not begun, page by page'(store, advance) {
    const { startAt = 0 } = await everyMinute(store)
    await store.schedules.pause('tick', BY)
    await advance(5 * MINUTE)
    await store.schedules.resume('tick', BY, timetable)
    const slots = Array.from({ length: 5 }, (_, n) => startAt + n * MINUTE)
    const { operation } = await backfill(store, slots.slice(0, 4))
    const other = await backfill(store, slots.slice(4))
    const { id: begun } = await claimOne(store, { limit: 1 })
    let undone = 0
    for (let after: string | undefined = ''; after !== undefined; ) {
      const page: { readonly undone: number; readonly next?: string } = await store.operations.undo(
        operation.id,
        { limit: 2, ...(after !== '' && { after }) },
        { who: 'bob' },
      )
      undone += page.undone
      after = page.next
    }
    assert.equal(undone, 3)
    assert.equal((await store.operations.get(operation.id))?.undone, 3)
    assert.deepEqual(ends(await slotsOf(store)), ['ran', 'skipped', 'skipped', 'skipped', 'ran'])
    assert.match((await slotsOf(store))[1]?.reason ?? '', /undone by bob before it began/)
    assert.equal((await store.get(begun))?.status, 'running')
    assert.deepEqual(await claimIds(store), other.moved)
  },

  async 'another definition is another generation: a run that has not begun is skipped, one that has goes on'(
    store,
    advance,
  ) {
    const spec = await everyMinute(store)
    await advance(MINUTE)
    await fire(store)
    const begun = await claimOne(store)
    await advance(MINUTE)
    await fire(store)
    const changed = { ...spec, task: { kind: 'k', payload: '2' } }
    assert.equal((await store.schedules.set(changed, BY, timetable)).generation, 2)
    assert.deepEqual(ends(await slotsOf(store)), ['ran', 'skipped'])
    assert.deepEqual(await claimIds(store), [])
    assert.equal((await store.get(begun.id))?.status, 'running')
    await advance(MINUTE)
    await fire(store)
    assert.equal((await claimOne(store)).payload, '2')
  },

  async 'a definition that was there before is another generation, which fires no slot again'(store, advance) {
    const a = await everyMinute(store)
    const b = { ...a, times: { everyMs: 2 * MINUTE } }
    await advance(MINUTE)
    await fire(store)
    await finish(store)
    await advance(2 * MINUTE)
    assert.equal((await store.schedules.set(b, BY, timetable)).generation, 2)
    assert.equal((await store.schedules.set(a, BY, timetable)).generation, 3)
    assert.deepEqual((await fire(store)).slots, [])
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['ran'])
    const slots = (await slotsOf(store)).map(({ slot }) => slot)
    assert.equal(new Set(slots).size, slots.length)
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'other rules for its time zone compute the next slot anew, and no slot twice'(store, advance) {
    const { startAt = 0 } = await everyMinute(store, { catchUp: 'all' })
    await advance(2 * MINUTE)
    await fire(store)
    // As if an update of Node had moved the zone by half a minute.
    const moved: Timetables = spec => timetable({ ...spec, startAt: startAt + MINUTE / 2 })
    await advance(MINUTE)
    await store.schedules.fire(100, moved)
    await advance(MINUTE)
    await store.schedules.fire(100, moved)
    const slots = (await slotsOf(store)).map(({ slot }) => (slot - startAt) / MINUTE)
    assert.deepEqual(slots, [0, 1, 1.5, 2.5])
    assert.equal((await claimIds(store)).length, 4)
  },

  async 'a declaration that was made before changes nothing, and an older release takes nothing back'(store) {
    const spec = await everyMinute(store)
    const declare = async (release: string, options: Partial<ScheduleSpec> = {}) =>
      (await store.schedules.declare([{ ...spec, ...options }], { worker: 'w2', release }, timetable))[0]
    assert.equal(await declare('1.0.0'), 'unchanged')
    assert.equal(await declare('1.1.0', { times: { everyMs: 2 * MINUTE } }), 'changed')
    assert.equal(await declare('1.0.9'), 'kept')
    const record = await store.schedules.get('tick')
    assert.deepEqual(
      [record?.generation, record?.declared?.release, record?.times],
      [2, '1.1.0', { everyMs: 2 * MINUTE }],
    )
    await store.schedules.set(spec, BY, timetable)
    assert.equal(await declare('1.1.0', { times: { everyMs: 2 * MINUTE } }), 'unchanged')
    assert.deepEqual((await store.schedules.get('tick'))?.times, spec.times)
  },

  async 'a run can be started at any time, unless it must not overlap'(store, advance) {
    await everyMinute(store, { overlap: 'skip' })
    const started = await store.schedules.run('tick', BY, timetable)
    assert.ok(started !== undefined && 'id' in started)
    assert.equal((await store.schedules.slotOf(started.id))?.reason, 'it was started by anna: a test')
    assert.deepEqual(await store.schedules.run('tick', BY, timetable), { unfinished: started.id })
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['overlapped'])
    assert.equal(await store.schedules.run('none', BY, timetable), undefined)
  },

  async 'one that cannot be fired says why, and does not stop the others'(store, advance) {
    for (const name of ['bad', 'good']) await everyMinute(store, { name })
    await advance(MINUTE)
    const broken = (spec: ScheduleSpec) => {
      if (spec.name === 'bad') throw new TypeError('no such zone')
      return timetable(spec)
    }
    const { slots } = await store.schedules.fire(10, broken)
    assert.deepEqual(
      slots.map(({ schedule }) => schedule),
      ['good'],
    )
    assert.match((await store.schedules.get('bad'))?.problem?.why ?? '', /no such zone/)
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['missed', 'ran', 'ran'])
    assert.equal((await store.schedules.get('bad'))?.problem, undefined)
  },

  async 'one that cannot be fired is late since its slot, and no longer once it can'(store, advance) {
    assert.equal(await store.schedules.lagMs(), 0)
    await everyMinute(store, { catchUp: 'all' })
    await advance(MINUTE)
    const broken = () => {
      throw new TypeError('no such zone')
    }
    for (let minutes = 0; minutes < 3; minutes++) {
      await store.schedules.fire(10, broken)
      assert.equal(await store.schedules.lagMs(), minutes * MINUTE)
      await advance(MINUTE)
    }
    await fire(store)
    assert.equal(await store.schedules.lagMs(), 0)
    await advance(MINUTE)
    await store.schedules.fire(10, broken)
    await advance(MINUTE)
    assert.equal(await store.schedules.lagMs(), MINUTE)
    await store.schedules.remove('tick', BY)
    assert.equal(await store.schedules.lagMs(), 0)
  },

  async 'schedules that have missed slots are listed, the last found first'(store, advance) {
    const { startAt = 0 } = await everyMinute(store)
    await everyMinute(store, { name: 'late', startAt: startAt + MINUTE, catchUp: 'skip' })
    assert.deepEqual(await store.schedules.missed(10), [])
    await advance(3 * MINUTE)
    await fire(store)
    const missed = (await store.schedules.missed(10)).map(({ schedule, from, to }) => [schedule, from, to])
    assert.deepEqual(missed, [
      ['tick', startAt, startAt + MINUTE],
      ['late', startAt + MINUTE, startAt + MINUTE],
    ])
    await advance(5 * MINUTE)
    await store.schedules.pause('late', BY)
    await fire(store)
    const [newest] = await store.schedules.missed(1)
    assert.equal(newest?.schedule, 'tick')
    assert.equal(newest?.at, await store.now())
  },

  async 'the last slots are found, whatever its times are by now'(store, advance) {
    const { startAt = 0, ...spec } = await everyMinute(store)
    for (let minute = 0; minute < 5; minute++) {
      await advance(MINUTE)
      await fire(store)
    }
    await store.schedules.set({ ...spec, times: { cron: '@yearly' } }, BY, timetable)
    const times = async (limit: number, before?: number) =>
      (await store.schedules.lastSlots('tick', limit, before)).map(({ slot }) => (slot - startAt) / MINUTE)
    assert.deepEqual(await times(3), [2, 3, 4])
    assert.deepEqual(await times(2, startAt + 3 * MINUTE), [1, 2])
    assert.deepEqual(await times(9, startAt), [])
  },

  async 'a firing ends after some thousand slots, and the next one goes on'(store, advance) {
    for (const name of ['a', 'b', 'c'])
      await everyMinute(store, { name, catchUp: 'all', catchUpWithinMs: 2000 * MINUTE })
    await advance(1000 * MINUTE)
    const first = await fire(store)
    assert.deepEqual([first.slots.length, first.hasMore], [2000, true])
    const second = await fire(store)
    assert.deepEqual([second.slots.length, second.hasMore], [1000, false])
    assert.deepEqual(await fire(store), { slots: [], news: [], hasMore: false })
    assert.equal((await store.count({})).waiting, 3000)
  },

  async 'one that is no schedule is refused, and says why'(store) {
    const spec = await everyMinute(store)
    const odd = [
      { name: 'a b' },
      { name: 'a@2027-01-01T00:00:00Z' },
      { name: '' },
      { times: {} },
      { times: null },
      { times: { everyMs: 0 } },
      { times: { everyMs: 1500 } },
      { times: { cron: '' } },
      { times: { cron: '* * * * * * *' } },
      { timeZone: 'Europe/Atlantis' },
      { catchUp: 'none' },
      { overlap: 'queue' },
      { spreadMs: Number.NaN },
      { catchUpWithinMs: -1 },
      { startAt: Number.POSITIVE_INFINITY },
      { task: { kind: 'k', payload: null } },
      { task: { kind: 7, payload: 'null' } },
    ]
    for (const fields of odd) {
      const hostile = { ...spec, ...fields } as ScheduleSpec
      const refused = { code: 'invalid_option' }
      await assert.rejects(store.schedules.set(hostile, BY, timetable), refused, JSON.stringify(fields))
      await assert.rejects(store.schedules.declare([hostile], { worker: 'w' }, timetable), refused)
    }
    assert.equal((await store.schedules.get('tick'))?.generation, 1)
    assert.equal((await store.schedules.list({ limit: 9 })).items.length, 1)
  },

  async 'overlap: a run that a rate limit or an open gate holds back has not finished'(store, advance) {
    await everyMinute(store, { overlap: 'skip' })
    const failures = { share: 0.5, minAttempts: 4, windowMs: 60 * MINUTE, holdMs: 60 * MINUTE }
    await store.budgets.set({ kind: 'k' }, { failures })
    await add(store, {}, {}, {}, {})
    const { tasks } = await claim(store)
    const verdict = { class: 'retryable', code: 'http_503' } as const
    const outcome = { type: 'dead', reason: 'attempts_exhausted' } as const
    await store.settle(
      tasks.map(task => ({ id: task.id, token: task.token, outcome, attempt: entry(task, { verdict }) })),
    )
    assert.equal((await store.budgets.list())[0]?.gate.state, 'open')
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['ran'])
    assert.deepEqual(await claimIds(store), [])
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['overlapped'])
    await store.budgets.lift({ kind: 'k' })
    // One start in ten minutes, which another task has taken.
    await store.limit({ kind: 'k' }, { perSecond: 1 / 600 })
    await add(store, { id: 'first', priority: 1 })
    assert.deepEqual(await claimIds(store), ['first'])
    await advance(MINUTE)
    assert.deepEqual(await claimIds(store), [])
    assert.deepEqual(ends((await fire(store)).slots), ['overlapped'])
    await advance(10 * MINUTE)
    await fire(store)
    await finish(store)
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['ran'])
  },

  async 'overlap: a run that a pause holds back has not finished'(store, advance) {
    await everyMinute(store, { overlap: 'skip' })
    await advance(MINUTE)
    await fire(store)
    await store.pause({ kind: 'k' }, { isPaused: true, ...BY })
    assert.deepEqual(await claimIds(store), [])
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['overlapped'])
    await store.pause({ kind: 'k' }, { isPaused: false, ...BY })
    await finish(store)
    await advance(MINUTE)
    assert.deepEqual(ends((await fire(store)).slots), ['ran'])
  },

  async 'the id of a run that a task has already is no run'(store, advance) {
    const { startAt = 0 } = await everyMinute(store)
    await add(store, { id: `tick@${new Date(startAt).toISOString().replace('.000Z', 'Z')}` })
    await advance(MINUTE)
    const { slots } = await fire(store)
    assert.deepEqual(ends(slots), ['skipped'])
    assert.match(slots[0]?.reason ?? '', /was there already/)
    assert.equal((await claim(store)).tasks.length, 1)
  },

  async 'schedules are listed by name, and removed with their slots on record'(store, advance) {
    for (const name of ['b', 'a', 'c']) await everyMinute(store, { name })
    const { items, next } = await store.schedules.list({ limit: 2 })
    assert.deepEqual(
      items.map(({ name }) => name),
      ['a', 'b'],
    )
    assert.deepEqual(
      (await store.schedules.list({ limit: 2, after: next })).items.map(({ name }) => name),
      ['c'],
    )
    await advance(MINUTE)
    await fire(store)
    assert.equal(await store.schedules.remove('a', BY), true)
    assert.equal(await store.schedules.remove('a', BY), false)
    assert.equal(await store.schedules.get('a'), undefined)
    assert.equal((await slotsOf(store, 'a')).length, 1)
    await advance(MINUTE)
    assert.equal((await fire(store)).slots.length, 2)
  },

  async 'names that begin alike share nothing'(store, advance) {
    for (const name of ['report', 'report_daily']) await everyMinute(store, { name })
    await advance(MINUTE)
    await fire(store)
    assert.equal((await slotsOf(store, 'report')).length, 1)
    assert.equal((await claimIds(store)).length, 2)
  },

  async 'slots are forgotten like the tasks that have ended'(store, advance) {
    await everyMinute(store, { overlap: 'skip' })
    await advance(MINUTE)
    await fire(store)
    await advance(10 * MINUTE)
    await fire(store)
    const before = (await slotsOf(store)).length
    await store.prune({ endedMs: 5 * MINUTE }, 100)
    assert.equal((await slotsOf(store)).length, before - 1)
    assert.notEqual(await store.schedules.get('tick'), undefined)
  },

  async 'a schedule that is over stays on record, and is due no more'(store, advance) {
    const { startAt = 0 } = await everyMinute(store)
    const spec = await everyMinute(store, { name: 'short', endAt: startAt + 1 })
    await store.schedules.remove('tick', BY)
    await advance(MINUTE)
    await fire(store)
    assert.equal((await store.schedules.get('short'))?.dueAt, undefined)
    assert.equal((await store.schedules.next()).dueAt, undefined)
    assert.equal((await slotsOf(store, spec.name)).length, 1)
  },
}
