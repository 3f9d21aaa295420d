import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { freshDatabase } from '../../test/services/fresh-database.js'
import { timetable } from '../calendar/internal.js'
import { canonicalJson, policy } from '../policy/index.js'
import type { NewTask } from '../store/index.js'
import {
  type ClaimedTask,
  MemoryStore,
  type Outcome,
  type ScheduleSpec,
  type StoreContract,
} from '../store/internal.js'
import { openPostgres } from '../store/postgres/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'

import { fakeClock } from '../testing/index.js'
import { type Why, why } from './index.js'

const folder = mkdtempSync(join(tmpdir(), 'redrive-why-'))
afterAll(() => rmSync(folder, { recursive: true }))

const clock = fakeClock()
const ENGINES = {
  memory: async (): Promise<StoreContract> => new MemoryStore({ clock }),
  sqlite: () => openSqlite(join(folder, 'why.db'), { clock }),
  postgres: async () => openPostgres(await freshDatabase(), { clock, listen: false }),
}

const POLICY = policy({ attempts: 2, backoff: { base: '1m', max: '1m' }, jitter: 'none' })
const DOWN = { class: 'retryable', code: 'http_502' } as const
const REFUSED = { class: 'rate_limited', code: 'http_429', retryAfterMs: 60_000 } as const

describe.each(Object.entries(ENGINES))('why, on the %s store', (_, open) => {
  let store: StoreContract
  let kind: string
  let tests = 0
  beforeAll(async () => {
    store = await open()
    await store.policies.keep('p', canonicalJson(POLICY))
  }, 120_000)
  afterAll(() => store.close())
  // Each test has a kind of its own, and a live worker for it.
  beforeEach(async () => {
    kind = `kind-${++tests}`
    await beat()
    return () => store.leave('w')
  })

  const beat = (kinds = [kind]) =>
    store.heartbeat({ worker: 'w', leaseMs: 3_600_000, kinds, release: '1.8.0', host: 'web-1' })
  const idOf = (name: string) => `${kind}-${name}`
  const add = (name: string, more: Partial<NewTask> = {}) =>
    store.enqueue([{ id: idOf(name), kind, payload: '{}', ...more }])
  const start = async (limit = 1): Promise<ClaimedTask[]> => {
    const request = { worker: 'w', leaseMs: 3_600_000, rooms: [{ kinds: [kind] }], limit, isIdle: true }
    return [...(await store.claim(request)).tasks]
  }
  const settle = async (outcome: Outcome, facts = {}) => {
    const [task] = await start()
    if (task === undefined) throw new Error('nothing was claimed')
    const [startedAt, endedAt] = [task.changedAt, await store.now()]
    const attempt = { attempt: task.attempts + 1, startedAt, endedAt, worker: 'w', release: '1.8.0', ...facts }
    await store.settle([{ id: task.id, token: task.token, outcome, attempt }])
  }
  const ask = async (name: string): Promise<Why> => {
    const answer = await why(store, idOf(name))
    if (answer === undefined) throw new Error(`no answer for ${name}`)
    expect(answer.answer).toBe(answer.causes[0]?.text)
    return answer
  }
  const codes = ({ causes }: Why) => causes.map(({ code }) => code)
  const inAMinute = () => new Date(clock.now() + 60_000).toISOString()

  it('knows no task of that name', async () => {
    expect(await why(store, 'nobody')).toBeUndefined()
  })

  it('it is enqueued for later', async () => {
    await add('a', { runAt: clock.now() + 60_000 })
    const answer = await ask('a')
    expect(codes(answer)).toEqual(['scheduled'])
    expect(answer).toMatchObject({ status: 'waiting', causes: [{ facts: { at: inAMinute() } }], actions: [] })
    expect(answer.answer).toMatch(/^It is not due until .*: it was enqueued for then\.$/)
  })

  it('a failure asked for a delay', async () => {
    await add('a')
    const failed = { verdict: DOWN, error: 'Error: Bad gateway', random: 0, policy: 'p' }
    await settle({ type: 'retry', delayMs: 60_000, isBackoff: true }, failed)
    const answer = await ask('a')
    expect(codes(answer)).toEqual(['retry_not_due'])
    expect(answer.answer).toMatch(
      /: attempt 1 failed at .* \(http_502: Error: Bad gateway\), and its policy asked to wait 1m\.$/,
    )
  })

  it('its handler asked for later', async () => {
    await add('a')
    await settle({ type: 'later', delayMs: 60_000 })
    expect(codes(await ask('a'))).toEqual(['asked_for_later'])
  })

  it('a rate limit that it or another task met holds its lane', async () => {
    await add('a')
    await settle({ type: 'deferred', delayMs: 60_000 }, { verdict: REFUSED, error: 'Error: slow down' })
    await add('b')
    const own = await ask('a')
    expect(own.answer).toMatch(/held until .*: a rate limit refused it \(http_429: Error: slow down\)\.$/)
    const other = await ask('b')
    expect(other.causes[0]).toMatchObject({ code: 'lane_held', facts: { heldBy: idOf('a'), errorCode: 'http_429' } })
    expect(other.answer).toContain(`refused the task '${idOf('a')}' (http_429`)
    expect(other.actions[0]?.args).toEqual(['task', 'show', idOf('a')])
  })

  it('the head of its ordered lane waits', async () => {
    await store.limit({ kind }, { isOrdered: true })
    await add('a')
    await settle({ type: 'retry', delayMs: 60_000, isBackoff: true }, { verdict: DOWN, error: 'Error: Bad gateway' })
    await add('b')
    const answer = await ask('b')
    expect(codes(answer)[0]).toBe('head_waits')
    expect(answer.answer).toContain(`The first task of its ordered lane, '${idOf('a')}', waits until`)
    expect((await ask('a')).answer).toContain('It is the first task of its ordered lane, and waits until')
  })

  it('its ordered lane stops at a dead letter', async () => {
    await store.limit({ kind }, { isOrdered: true, onDead: 'block' })
    await add('a')
    await settle(
      { type: 'dead', reason: 'final_error' },
      { verdict: { ...DOWN, class: 'final' }, error: 'Error: Gone' },
    )
    await add('b')
    const answer = await ask('b')
    expect(codes(answer)).toEqual(['lane_blocked'])
    expect(answer.answer).toContain(`stops at the dead letter '${idOf('a')}' (http_502: Error: Gone)`)
    expect(answer.actions[0]?.args).toEqual(['dlq', 'redrive', idOf('a')])
    await store.redrive([idOf('a')], { who: 'ada' })
    expect(codes(await ask('b'))).toEqual(['behind_others'])
  })

  it('somebody paused its lane', async () => {
    await add('a', { key: 't' })
    await store.pause({ kind, key: 't' }, { isPaused: true, who: 'ada', why: 'the mail server is down' })
    const answer = await ask('a')
    expect(codes(answer)).toEqual(['lane_paused'])
    expect(answer.answer).toMatch(/^Its lane is paused by ada since .*: the mail server is down\.$/)
    expect(answer.actions[0]?.args).toEqual(['lane', 'resume', '--kind', kind, '--key', 't'])
    await store.pause({ kind }, { isPaused: false })
    expect(codes(await ask('a'))).toEqual(['next'])
  })

  it('its lane has reached its limits', async () => {
    await store.limit({ kind }, { concurrency: 1 })
    await add('a')
    await add('b')
    await start()
    const full = await ask('b')
    expect(full.causes[0]).toMatchObject({ code: 'lane_full', facts: { running: 1, allowed: 1 } })
    await store.limit({ kind }, { perSecond: 0.1 })
    await add('c')
    await start()
    await add('d')
    expect(codes(await ask('d'))).toContain('lane_rate')
  })

  it('its lane starts slowly after a rate limit', async () => {
    await add('a')
    await add('b')
    await add('c')
    await settle({ type: 'deferred', delayMs: 10 }, { verdict: REFUSED })
    await clock.advance(10)
    await start()
    expect(codes(await ask('c'))[0]).toBe('starts_slowly')
  })

  it('the limit that its lane shares is reached', async () => {
    await store.limit({ kind }, { isShared: true, concurrency: 1, rates: { calls: { perSecond: 0.1 } } })
    await add('a', { key: 'x' })
    await add('b', { key: 'y' })
    await start()
    const answer = await ask('b')
    expect(codes(answer)).toEqual(['shared_limit_full', 'shared_rate'])
    expect(answer.causes[0]?.facts).toEqual({ running: 1, allowed: 1 })
  })

  it('its quota is reached', async () => {
    await store.limit(
      { kind },
      { isShared: true, isPerQuota: true, concurrency: 1, rates: { calls: { perSecond: 0.1 } } },
    )
    await add('a', { key: 'x', quota: 'acme' })
    await add('b', { key: 'y', quota: 'acme' })
    await start()
    const { causes } = await ask('b')
    expect(causes.map(({ text }) => text)).toEqual([
      "Its quota 'acme' is reached: 1 task may run at once, and 1 is running.",
      expect.stringMatching(/^The rate of its quota 'acme' lets it start at /),
    ])
    expect(causes[0]?.facts).toEqual({ running: 1, allowed: 1, quota: 'acme' })
  })

  it('others come before it, and it is told how many, up to ten thousand', async () => {
    await add('a')
    await add('b')
    await add('c')
    expect((await ask('c')).causes).toMatchObject([{ code: 'behind_others', facts: { before: 2, isMore: false } }])
    const { answer: behind, actions } = await ask('b')
    expect(behind).toBe('1 task of its lane comes before it.')
    // Nothing of its lane runs, so more workers might run more of what takes the slots.
    expect(actions).toEqual([{ text: expect.stringContaining('keep slots free for its kind'), args: ['stats'] }])
    await store.enqueue(Array.from({ length: 10_001 }, () => ({ kind, payload: '{}', priority: 1 })))
    const answer = await ask('a')
    expect(answer.answer).toBe('More than 10 000 tasks of its lane come before it.')
    expect(answer.causes[0]?.facts).toMatchObject({ before: 10_000, isMore: true })
  }, 60_000)

  it('advises more workers only where they help', async () => {
    const advice = async () => (await ask('b')).actions.map(({ text }) => text).join(' ')
    await add('a')
    await add('b')
    await store.limit({ kind }, { isOrdered: true })
    expect(await advice()).toContain('Its lane is ordered')
    await store.limit({ kind }, { perSecond: 1000 })
    expect(await advice()).toContain('Its lane is limited')
    await store.limit({ kind }, {})
    await store.pause({ kind }, { isPaused: true })
    expect(codes(await ask('b'))).toEqual(['lane_paused', 'behind_others'])
    expect(await advice()).toBe('Resume its lane.')
    await store.pause({ kind }, { isPaused: false })
    await store.leave('w')
    expect(await advice()).toBe(`Start a worker that has code for '${kind}'.`)
  })

  it('no live worker runs its kind, or its category', async () => {
    await add('a', { category: 'bulk' })
    await beat(['other'])
    const answer = await ask('a')
    expect(answer.causes[0]).toMatchObject({ code: 'no_worker', facts: { kind, workers: 1, kinds: ['other'] } })
    expect(answer.answer).toContain(`No live worker runs its kind '${kind}' in category 'bulk'`)
    await store.heartbeat({ worker: 'w', leaseMs: 60_000, kinds: [kind], categories: ['mail'] })
    const { causes, actions } = await ask('a')
    expect(causes).toMatchObject([{ code: 'no_worker', facts: { categories: ['mail'] } }])
    expect(actions[0]?.args).toEqual(expect.arrayContaining(['worker', 'FILE']))
    expect(actions[0]?.args?.join(' ')).toMatch(/--category[ =]bulk/)
    await store.leave('w')
    expect((await ask('a')).answer).toBe('No worker is running.')
  })

  it('nothing holds it', async () => {
    await add('a')
    const answer = await ask('a')
    expect(codes(answer)).toEqual(['next'])
    expect(answer.answer).toContain('1 live worker runs its kind')
  })

  it('a failure budget stops its kind', async () => {
    await store.budgets.set({ kind }, { failures: { share: 0.5, minAttempts: 1 } })
    await add('a')
    await settle({ type: 'retry', delayMs: 0, isBackoff: true }, { verdict: DOWN, error: 'Error: Bad gateway' })
    await add('b')
    const answer = await ask('b')
    expect(answer.causes[0]).toMatchObject({ code: 'budget_open', facts: { errorCode: 'http_502' } })
    expect(answer.actions[0]?.args).toEqual(['budget', 'close', '--kind', kind])
  })

  it('a retry budget holds it, and in an ordered lane all tasks behind it', async () => {
    await store.limit({ kind, category: 'ordered' }, { isOrdered: true })
    await store.budgets.set({ kind }, { retries: { share: 0.2, floor: 0.1 } })
    await add('a')
    await add('b', { category: 'ordered' })
    await add('c', { category: 'ordered' })
    const outcome = { type: 'retry', delayMs: 0, isBackoff: true } as const
    for (const { id, token, changedAt } of await start(2)) {
      const attempt = { attempt: 1, startedAt: changedAt, endedAt: changedAt, worker: 'w', verdict: DOWN }
      await store.settle([{ id, token, outcome, attempt }])
    }
    expect((await start(9)).map(({ id }) => id)).toEqual([idOf('a')])
    const answer = await ask('b')
    expect(answer.causes[0]).toMatchObject({ code: 'retry_budget', facts: { first: 2, retried: 1, held: 1 } })
    expect(answer.answer).toContain('20% of the first attempts within 1m, or 0.1 per second')
    expect(answer.actions[0]?.args).toEqual(['budget', 'ls'])
    const behind = await ask('c')
    expect(behind.causes[0]).toMatchObject({ code: 'head_under_budget', facts: { heldBy: idOf('b') } })
    expect(behind.actions[0]?.args).toEqual(['why', idOf('b')])
  })

  it('workers died of it: somebody decides, and then it runs alone', async () => {
    await add('a')
    const die = async () => {
      await store.claim({ worker: 'dying', leaseMs: 10, rooms: [{ kinds: [kind] }], limit: 1, isIdle: true })
      await clock.advance(10)
      await beat()
    }
    await die()
    expect(codes(await ask('a'))).toEqual(['undecided'])
    const [task] = await start()
    const again = { type: 'retry', delayMs: 0, isBackoff: false } as const
    if (task !== undefined) await store.settle([{ id: task.id, token: task.token, outcome: again }])
    await die()
    expect(codes(await ask('a'))).toEqual(['undecided', 'runs_alone'])
  })

  it('its run is paused by somebody, or stopped by its budget', async () => {
    const run = idOf('run')
    const budget = { failureBudget: 0.1, stageBudgets: {}, checkInterval: 1, budgetWindow: undefined }
    const settings = { ...budget, completedFrom: 0.9, partialFrom: 0.5, maxUnfinished: 10, concurrency: {} }
    await store.runs.open({ id: run, pipeline: kind, version: '1', stages: ['fetch'], settings })
    const items = ['1', '2'].map(payload => ({ payload }))
    await store.runs.take(run, { reader: 'r', leaseMs: 60_000, position: 0, items, isEnd: true })
    kind = `pipeline:${kind}`
    await beat()
    await store.runs.change(run, { isPaused: true }, { who: 'ada', why: 'lunch' })
    const [item] = (await store.runs.items(run, { limit: 2 })).items.slice(1)
    const paused = await why(store, item?.id ?? '')
    expect(paused?.answer).toMatch(/^Its run '.*' is paused by ada since .*: lunch\.$/)
    await store.runs.change(run, { isPaused: false })
    await settle({ type: 'dead', reason: 'final_error' }, { verdict: { class: 'final', code: 'http_422' } })
    await store.runs.check(run)
    const stopped = await why(store, item?.id ?? '')
    expect(stopped?.causes[0]).toMatchObject({ code: 'run_stopped', facts: { run, dead: 1, processed: 1 } })
    expect(stopped?.answer).toContain(
      "1 of 1 items had died (100%, 10% allowed), most of them with http_422 in 'fetch'",
    )
  })

  it('it runs, and who runs it', async () => {
    await add('a')
    await start()
    const answer = await ask('a')
    const facts = { worker: 'w', host: 'web-1', release: '1.8.0', attempt: 1 }
    expect(answer).toMatchObject({ status: 'running', causes: [{ code: 'running', facts }] })
    expect(answer.answer).toContain("The worker 'w' on web-1 (release 1.8.0) has been running attempt 1 of it since")
    await store.cancel([idOf('a')], { who: 'ada', why: 'it hangs' })
    const asked = await ask('a')
    expect(codes(asked)).toEqual(['running', 'cancel_requested'])
    const requestedAt = new Date(clock.now()).toISOString()
    expect(asked.causes[1]?.facts).toEqual({ who: 'ada', why: 'it hangs', requestedAt })
    expect(asked.causes[1]?.text).toMatch(
      /^A cancellation was requested at .*Z by ada: it hangs\. Its signal is aborted/,
    )
    await clock.advance('2h')
    expect(codes(await ask('a'))[0]).toBe('worker_gone')
  })

  it('it is dead: the rule and its inputs, recomputed', async () => {
    await add('a')
    const failed = { verdict: DOWN, error: 'Error: Bad gateway', random: 0, policy: 'p' }
    await settle({ type: 'retry', delayMs: 60_000, isBackoff: true }, failed)
    await clock.advance('1m')
    await settle({ type: 'dead', reason: 'attempts_exhausted' }, failed)
    const answer = await ask('a')
    expect(answer.answer).toBe('It is dead. Both attempts failed.')
    expect(codes(answer)).toEqual(['attempts_exhausted', 'last_error', 'policy', 'decision_confirmed'])
    expect(answer.causes[0]?.facts).toMatchObject({
      attempts: 2,
      maxAttempts: 2,
      errorCode: 'http_502',
      release: '1.8.0',
    })
    expect(answer.actions[0]?.args).toEqual(['dlq', 'redrive', idOf('a')])
  })

  it('names an error once, where its code is its name', async () => {
    await add('a')
    const bug = { verdict: { class: 'final', code: 'TypeError' }, error: 'TypeError: x is undefined' }
    await settle({ type: 'dead', reason: 'final_error' }, bug)
    expect((await ask('a')).causes[1]?.text).toBe('Its last error: TypeError: x is undefined (on w, release 1.8.0)')
  })

  it('it is dead, and the record does not agree with its policy', async () => {
    await add('a')
    await settle({ type: 'dead', reason: 'attempts_exhausted' }, { verdict: DOWN, error: 'x', random: 0, policy: 'p' })
    expect(codes(await ask('a'))).toContain('decision_differs')
    await add('b')
    await settle({ type: 'dead', reason: 'final_error' }, { verdict: { class: 'final', code: 'E' }, error: 'x' })
    expect(codes(await ask('b'))).toEqual(['final_error', 'last_error', 'decision_unknown'])
  })

  it('it was cancelled, discarded, skipped, completed or failed by hand, or has succeeded', async () => {
    await add('cancelled')
    await store.cancel([idOf('cancelled')], { who: 'ada', why: 'the customer withdrew' })
    expect(codes(await ask('cancelled'))).toEqual(['cancelled'])
    expect((await ask('cancelled')).answer).toMatch(/^It was cancelled at .*Z by ada: the customer withdrew\.$/)
    await add('stopped')
    const [stopped] = await start()
    if (stopped === undefined) throw new Error('nothing was claimed')
    await store.cancel([idOf('stopped')], { who: 'ada', why: 'it hangs' })
    const facts = { attempt: 1, startedAt: stopped.changedAt, endedAt: await store.now(), worker: 'w' }
    await store.settle([{ id: stopped.id, token: stopped.token, outcome: { type: 'cancelled' }, attempt: facts }])
    expect((await ask('stopped')).answer).toMatch(
      /^It was cancelled at .*Z while it was running\. A cancellation was requested at .*Z by ada: it hangs\.$/,
    )
    await add('discarded')
    await settle({ type: 'dead', reason: 'final_error' })
    await store.discard([idOf('discarded')], { who: 'ada', why: 'refunded by hand' })
    expect((await ask('discarded')).answer).toMatch(/was discarded at .* by ada: refunded by hand\.$/)
    await add('completed')
    await store.complete([idOf('completed')], undefined, { who: 'ada', why: 'done by phone' })
    expect(codes(await ask('completed'))).toEqual(['completed'])
    expect((await ask('completed')).answer).toMatch(/^It was completed by hand at .*Z by ada: done by phone\.$/)
    await add('failed')
    await settle({ type: 'retry', delayMs: 0, isBackoff: true }, { verdict: DOWN, error: 'Error: Bad gateway' })
    await store.fail([{ id: idOf('failed') }], { who: 'ada', why: 'the shop is closed' })
    expect(codes(await ask('failed'))).toEqual(['failed_by_hand', 'last_error'])
    expect((await ask('failed')).answer).toMatch(
      /^It is dead\. It was failed by hand at .*Z by ada: the shop is closed\./,
    )
    expect((await ask('failed')).causes[1]?.text).toMatch(/^The last error of an attempt: Error: Bad gateway \(on w/)
    await add('skipped')
    await settle({ type: 'skipped', reason: 'too old' })
    expect((await ask('skipped')).answer).toBe('Its handler skipped it: too old.')
    await add('done')
    await settle({ type: 'succeeded' })
    expect((await ask('done')).answer).toMatch(/^It succeeded with attempt 1 at /)
  })

  describe('why a slot did not run', () => {
    const MINUTE = 60_000
    const BY = { who: 'ada', why: 'too often' }
    const slotId = (at: number) => `${kind}@${new Date(at).toISOString().replace('.000Z', 'Z')}`
    /** A schedule of this test's kind: due in a minute and every minute then. */
    const declare = async (more: Partial<ScheduleSpec> = {}) => {
      const first = Math.ceil((await store.now()) / MINUTE) * MINUTE + MINUTE
      const rules = { catchUp: 'last', catchUpWithinMs: 60 * MINUTE, overlap: 'allow', spreadMs: 0 } as const
      const task = { kind, payload: '{}' }
      const spec = { name: kind, times: { everyMs: MINUTE }, startAt: first, timeZone: 'UTC', ...rules, task, ...more }
      await store.schedules.set(spec, BY, timetable)
      return first
    }
    const fireAt = async (at: number) => {
      await clock.advance(at - (await store.now()))
      await store.schedules.fire(10, timetable)
    }
    afterEach(() => store.schedules.remove(kind, BY))

    it('it was missed, and a backfill runs it', async () => {
      const first = await declare()
      await fireAt(first + MINUTE)
      const missed = await why(store, slotId(first))
      expect(missed).toMatchObject({ kind, status: 'missed', isTask: false })
      expect(missed?.answer).toMatch(/^The slot for \S+ \S+ was missed: a later slot was due by then/)
      const from = new Date(first).toISOString()
      const to = new Date(first + 1).toISOString()
      expect(missed?.actions.map(({ args }) => args)).toEqual([
        ['schedule', 'backfill', kind, '--from', from, '--to', to],
      ])
      const local = new Date(first).toISOString().slice(0, 16)
      expect(await why(store, `${kind}@${local}`)).toEqual(missed)
    })

    it('a run says which slot it is for, by its local time too', async () => {
      const first = await declare()
      await fireAt(first)
      const run = await why(store, `${kind}@${new Date(first).toISOString().slice(0, 16)}`)
      expect(run).toMatchObject({ id: slotId(first), status: 'waiting', isTask: true })
      expect(run?.causes.at(-1)?.text).toMatch(/^It is the run of the schedule '.*' for [\d-]+ [\d:]+\.$/)
    })

    it('it waits for the run before it, and another one found it waiting', async () => {
      const first = await declare({ overlap: 'after' })
      await fireAt(first)
      await fireAt(first + MINUTE)
      const waits = await why(store, slotId(first + MINUTE))
      expect(waits).toMatchObject({ status: 'waiting', isTask: false, causes: [{ code: 'slot_waits' }] })
      expect(waits?.answer).toContain(`waits until the run ${slotId(first)} has ended`)
      expect(waits?.actions[0]?.args).toEqual(['why', slotId(first)])
      await fireAt(first + 2 * MINUTE)
      expect(await why(store, slotId(first + 2 * MINUTE))).toMatchObject({ status: 'overlapped' })
    })

    it('it is not due, is skipped in a pause, is late, or never was a slot', async () => {
      const first = await declare()
      const codeOf = async (at: number) => (await why(store, slotId(at)))?.causes[0]?.code
      expect(await codeOf(first)).toBe('slot_not_due')
      expect(await codeOf(first + 1000)).toBe('not_a_slot')
      await store.schedules.pause(kind, BY)
      expect((await why(store, slotId(first)))?.answer).toMatch(/is paused by ada since .*: too often\. The slot for/)
      await fireAt(first)
      expect((await why(store, slotId(first)))?.answer).toMatch(
        /was skipped: the schedule was paused by ada: too often/,
      )
      await store.schedules.resume(kind, BY, timetable)
      await clock.advance(MINUTE)
      await beat()
      expect(await codeOf(first + MINUTE)).toBe('slot_late')
      await store.leave('w')
      expect(await codeOf(first + MINUTE)).toBe('no_worker')
      const broken = () => {
        throw new TypeError('no such zone')
      }
      await store.schedules.fire(10, broken)
      expect((await why(store, slotId(first + MINUTE)))?.answer).toMatch(/cannot be fired: .*no such zone/)
      expect(await why(store, 'nobody@2027-01-01T00:00:00Z')).toBeUndefined()
      expect(await why(store, `${kind}@yesterday`)).toBeUndefined()
    })
  })
})
