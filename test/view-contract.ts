import { expect } from 'vitest'
import { timetable } from '../src/calendar/internal.js'
import { schedule } from '../src/schedule/index.js'
import type { LedgerRow, TaskRecord } from '../src/store/index.js'
import type { ClaimedTask, Outcome, StoreContract } from '../src/store/internal.js'
import { declareTask } from '../src/task/index.js'

/** The columns of the views, in their order: the contract of docs/sql.md. They may only be added to, at the end. */
export const VIEW_COLUMNS = {
  attempts:
    'task kind category key sequence attempt outcome class code error reason delay_ms worker started_at ended_at duration_ms trace release failure_group',
  dead_letters:
    'id kind category key reason class code error attempts deferrals losses payload submitted_at died_at failure_group',
  failure_groups:
    'id kind code pattern seen retrying dead first_seen last_seen state marked_at marked_by fixed_in ignored_until regressed_in',
} as const

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const GROUP = { id: '1-0f', kind: 'mail', code: 'http_502', errorName: '', pattern: 'status 502', frames: [] }
const FAILED = {
  verdict: { class: 'retryable', code: 'http_502' },
  error: 'status 502',
  group: GROUP,
  trace: TRACE,
} as const
const RETRY: Outcome = { type: 'retry', delayMs: 0, isBackoff: false }
const DEAD: Outcome = { type: 'dead', reason: 'attempts_exhausted' }

/** Fills a store with tasks that succeeded at once or later, died, were redriven, and wait, each with a unique key. */
export async function fillForViews(store: StoreContract): Promise<void> {
  const histories: Readonly<Record<string, readonly Outcome[]>> = {
    plain: [{ type: 'succeeded' }],
    noted: [{ type: 'succeeded', reason: 'result_not_kept' }],
    retried: [RETRY, { type: 'succeeded' }],
    dead: [RETRY, DEAD],
    redriven: [DEAD, { type: 'succeeded' }],
    waiting: [RETRY],
  }
  for (const [id, outcomes] of Object.entries(histories)) {
    await store.enqueue([
      {
        id,
        kind: 'mail',
        category: 'news',
        key: 'ada',
        payload: '{"to":"ada"}',
        unique: { key: id, while: 'unfinished', conflict: 'keep' },
        traceparent: `00-${TRACE}-b7ad6b7169203331-01`,
      },
    ])
    for (const outcome of outcomes) {
      const request = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['mail'] }], limit: 1, isIdle: true }
      const { tasks, now } = await store.claim(request)
      const [task] = tasks
      expect(task?.id).toBe(id)
      const isFailure = outcome.type === 'retry' || outcome.type === 'dead'
      const attempt = {
        attempt: (task?.attempts ?? 0) + 1,
        startedAt: now,
        endedAt: now + 5,
        worker: 'w',
        release: '1.8.0',
      }
      const token = task?.token ?? ''
      await store.settle([{ id, token, outcome, attempt: { ...attempt, ...(isFailure && FAILED) } }])
      if (id === 'redriven') await store.redrive([id], { who: 'ada', why: 'fixed' })
    }
    // Out of the way of the next one.
    if (id === 'waiting') await store.pause({ kind: 'mail' }, { isPaused: true })
  }
}

/** Adds a task that runs, one that has replaced another and waits for it, one that is postponed, and a schedule that is due. */
export async function fillWithKeys(store: StoreContract): Promise<ClaimedTask> {
  const latest = { key: 'acme', while: 'unfinished', conflict: 'after' } as const
  const task = (id: string) => ({ id, kind: 'sync', payload: '1', unique: latest })
  await store.enqueue([task('runs')])
  const request = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['sync'] }], limit: 1, isIdle: true }
  const [running] = (await store.claim(request)).tasks
  expect(running?.id).toBe('runs')
  await store.enqueue([task('replaced')])
  expect(await store.enqueue([task('waits'), { kind: 'sync', payload: '1' }])).toMatchObject([
    { outcome: 'queued_after' },
    {},
  ])
  const postponed = { key: 'doc', while: 'waiting', conflict: 'postpone', maxWaitMs: 60_000 } as const
  for (const inMs of [1e6, 2e6])
    await store.enqueue([{ kind: 'index', payload: '1', unique: postponed, runAt: (await store.now()) + inMs }])
  const tick = { every: '1s', task: declareTask<null>('tick'), catchUp: 'all' } as const
  await store.schedules.declare([schedule('tick', tick).spec], { worker: 'w' }, timetable)
  return running as ClaimedTask
}

/** Adds a group in each state that a group can be marked as. */
export async function markGroups(store: StoreContract): Promise<void> {
  const by = { who: 'ada', why: 'known' }
  const fail = async (state: string, release: string) => {
    const attempt = { attempt: 1, startedAt: (await store.now()) + 1, endedAt: 9, worker: 'w', ...FAILED, release }
    const tried = { outcome: DEAD, attempt: { ...attempt, group: { ...GROUP, id: `1-${state}` } } }
    await store.enqueue([{ id: `${state}-${release}`, kind: 'marked', payload: '1', tried }])
  }
  for (const state of ['acknowledged', 'ignored', 'passing', 'fixed', 'regressed']) await fail(state, '1.8.0')
  await store.groups.mark('1-acknowledged', { state: 'acknowledged' }, by)
  await store.groups.mark('1-ignored', { state: 'ignored', until: { at: 32_503_680_000_000 } }, by)
  await store.groups.mark('1-passing', { state: 'ignored', until: { count: 10 } }, by)
  for (const id of ['1-fixed', '1-regressed']) await store.groups.mark(id, { state: 'fixed', release: '1.9.0' }, by)
  await fail('regressed', '2.0.0')
}

/** The rows that the view should have, from what the store tells by its verbs. */
export async function expectedAttempts(store: StoreContract): Promise<object[]> {
  const { items } = await store.list({}, { limit: 100 })
  const ledgers = await store.ledgers(items.map(({ id }) => id))
  return items.flatMap((task, index) =>
    (ledgers[index] ?? []).flatMap(row => (row.attempt > 0 ? [attemptRow(task, row)] : [])),
  )
}

function attemptRow({ id, kind, category, key }: TaskRecord, row: LedgerRow): object {
  return {
    task: id,
    kind,
    category,
    key,
    sequence: row.sequence,
    attempt: row.attempt,
    outcome: row.outcome,
    class: row.verdict?.class ?? null,
    code: row.verdict?.code ?? null,
    error: row.error ?? null,
    reason: row.reason ?? null,
    delay_ms: row.delayMs ?? null,
    worker: row.worker,
    started_at: new Date(row.startedAt).toISOString(),
    ended_at: new Date(row.endedAt).toISOString(),
    duration_ms: row.endedAt - row.startedAt,
    trace: row.trace ?? null,
    release: row.release ?? null,
    failure_group: row.group ?? null,
  }
}

/** The dead letters, from what the store lists. */
export async function expectedLetters(store: StoreContract): Promise<object[]> {
  const { items } = await store.list({ status: 'dead' }, { limit: 100 })
  return items.map(task => ({
    id: task.id,
    kind: task.kind,
    category: task.category,
    key: task.key,
    reason: task.reason,
    class: task.errorClass,
    code: task.errorCode,
    error: task.errorMessage,
    attempts: task.attempts,
    deferrals: task.deferrals,
    losses: task.losses,
    payload: task.payload,
    submitted_at: new Date(task.submittedAt).toISOString(),
    died_at: new Date(task.changedAt).toISOString(),
    failure_group: task.group,
  }))
}

/** The failure groups, from what the store lists. */
export async function expectedGroups(store: StoreContract): Promise<object[]> {
  const { items } = await store.groups.list({}, { limit: 100 })
  const time = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString())
  return items.map(({ id, kind, code, pattern, seen, retrying, dead, firstSeenAt, lastSeenAt, life }) => ({
    id,
    kind,
    code,
    pattern,
    seen,
    retrying,
    dead,
    first_seen: new Date(firstSeenAt).toISOString(),
    last_seen: new Date(lastSeenAt).toISOString(),
    state: life.state,
    marked_at: life.state === 'new' ? null : time(life.at),
    marked_by: life.state === 'new' ? null : life.who,
    fixed_in: (life.state === 'fixed' ? life.release : life.state === 'regressed' ? life.fixedIn : undefined) ?? null,
    ignored_until: life.state === 'ignored' ? time(life.until.at) : null,
    regressed_in: (life.state === 'regressed' ? life.release : undefined) ?? null,
  }))
}
