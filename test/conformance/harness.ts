import assert from 'node:assert/strict'
import type { LaneRecord, NewTask, TaskRecord } from '../../src/store/index.js'
import type {
  AttemptEntry,
  Claim,
  ClaimedTask,
  ClaimRequest,
  FailureGroup,
  Outcome,
  Room,
  Settled,
  StoreContract,
} from '../../src/store/internal.js'

/** An empty store, one for each case, on a clock that stands still until the test moves it. */
export interface StoreUnderTest {
  /** The store to test. */
  readonly store: StoreContract
  /** Lets this much time pass for the store. */
  advance(ms: number): Promise<void> | void
  /** Opens the same store as another process would after this one has died. Absent for a store that dies with its process. */
  reopen?(): Promise<StoreContract>
  /** Frees what `open` made. */
  close?(): Promise<void>
}

/** One piece of behaviour. Rejects if the store does not show it. */
export type StoreBehaviour = (store: StoreContract, advance: (ms: number) => Promise<void>) => Promise<void>

/** Named behaviours of one theme. */
export type StoreBehaviours = Readonly<Record<string, StoreBehaviour>>

export const LEASE_MS = 30_000
/** The group of a failure, as a worker would make it from the fingerprint. */
export function groupOf(id: string, kind = 'k'): FailureGroup {
  return { id, kind, code: 'timeout', errorName: 'Error', pattern: `${id} failed`, frames: [] }
}

/** The group of the lost attempts of a kind. */
export function lostGroupOf(kind: string): FailureGroup {
  return { id: `lost:${kind}`, kind, code: 'lost', errorName: '', pattern: 'the worker was lost', frames: [] }
}

export const TIMED_OUT = { class: 'retryable', code: 'timeout' } as const

/** Enqueues tasks, of kind `k` by default, and returns their ids. */
export async function add(store: StoreContract, ...tasks: Partial<NewTask>[]): Promise<string[]> {
  const added = await store.enqueue(tasks.map(task => ({ kind: 'k', payload: '{}', ...task })))
  return added.map(({ id }) => id)
}

/** Enqueues one task and returns its id. */
export async function addOne(store: StoreContract, task: Partial<NewTask> = {}): Promise<string> {
  const [id] = await add(store, task)
  assert.ok(id !== undefined, 'enqueue should give back the id')
  return id
}

/** A claim as the cases write it: with rooms, or with the kinds and categories of a single one. */
export type ClaimOptions = Partial<ClaimRequest & Omit<Room, 'limit'>>

/** Claims as the worker `w1`, which is busy, up to 100 tasks of kind `k` by default. */
export function claim(
  store: StoreContract,
  { kinds = ['k'], categories, ...request }: ClaimOptions = {},
): Promise<Claim> {
  const rooms = [{ kinds, categories }]
  return store.claim({ worker: 'w1', leaseMs: LEASE_MS, rooms, limit: 100, isIdle: false, ...request })
}

/** Claims, and returns the ids of the tasks. */
export async function claimIds(store: StoreContract, request: ClaimOptions = {}): Promise<string[]> {
  return (await claim(store, request)).tasks.map(({ id }) => id)
}

/** Claims the only task that can be claimed. */
export async function claimOne(store: StoreContract, request: ClaimOptions = {}): Promise<ClaimedTask> {
  const { tasks } = await claim(store, request)
  const [task] = tasks
  assert.ok(task !== undefined && tasks.length === 1, `${tasks.length} tasks were claimed where there should be one`)
  return task
}

/** Enqueues one task and claims it. */
export async function start(store: StoreContract, task: Partial<NewTask> = {}, request: ClaimOptions = {}) {
  const id = await addOne(store, task)
  const claimed = await claimOne(store, { kinds: [task.kind ?? 'k'], ...request })
  assert.equal(claimed.id, id)
  return claimed
}

/** The ledger's row of an attempt that took no time. */
export function entry(task: TaskRecord, more: Partial<AttemptEntry> = {}): AttemptEntry {
  return { attempt: task.attempts + 1, startedAt: task.changedAt, endedAt: task.changedAt, worker: 'w1', ...more }
}

/** Settles one task with an attempt. */
export async function settle(
  store: StoreContract,
  task: ClaimedTask,
  outcome: Outcome,
  more: Partial<AttemptEntry> = {},
): Promise<Settled['result'] | undefined> {
  const [settled] = await store.settle([{ id: task.id, token: task.token, outcome, attempt: entry(task, more) }])
  return settled?.result
}

/** Settles one task without an attempt: releases it, or settles the decision on a lost attempt. */
export async function settleUncounted(
  store: StoreContract,
  task: ClaimedTask,
  outcome: Outcome,
): Promise<Settled['result'] | undefined> {
  const [settled] = await store.settle([{ id: task.id, token: task.token, outcome }])
  return settled?.result
}

/** Fails a task for good. */
export async function kill(store: StoreContract, task: ClaimedTask, code = 'E_BAD'): Promise<void> {
  const verdict = { class: 'final', code } as const
  const group = { ...groupOf(`${code}:${task.kind}`, task.kind), code }
  const attempt = { verdict, error: 'Error: bad', group }
  const settled = await settle(store, task, { type: 'dead', reason: 'final_error' }, attempt)
  assert.equal(settled, 'settled')
}

/** Claims a task as a worker that then dies, and lets another one rescue it. */
export async function lose(
  store: StoreContract,
  advance: (ms: number) => Promise<void>,
  request: ClaimOptions = {},
): Promise<void> {
  await claim(store, { worker: 'killed', isIdle: true, ...request })
  await advance(LEASE_MS)
  await store.heartbeat({ worker: 'rescuer', leaseMs: LEASE_MS })
}

/** Lets two workers die of the tasks that there are to claim, so that each of them must run alone. */
export async function loseTwice(
  store: StoreContract,
  advance: (ms: number) => Promise<void>,
  request: ClaimOptions = {},
): Promise<void> {
  await lose(store, advance, request)
  const { tasks } = await claim(store, request)
  for (const task of tasks) await settleUncounted(store, task, { type: 'retry', delayMs: 0, isBackoff: false })
  await lose(store, advance, request)
}

/** A task that must be there. */
export async function get(store: StoreContract, id: string): Promise<TaskRecord> {
  const task = await store.get(id)
  assert.ok(task !== undefined, `the task ${id} should be there`)
  return task
}

/** The only lane that matches. */
export async function laneOf(store: StoreContract, lane: Partial<LaneRecord>): Promise<LaneRecord> {
  const lanes = await store.lanes(lane)
  const [first] = lanes
  assert.ok(first !== undefined && lanes.length === 1, `${lanes.length} lanes match where one should`)
  return first
}

/** Asserts that a record has these values; its other fields may have any. */
export function assertFields<T extends object>(actual: T | undefined, expected: Partial<T>): void {
  assert.ok(actual !== undefined, 'there should be a record')
  const names = Object.keys(expected) as (keyof T)[]
  assert.deepEqual(Object.fromEntries(names.map(name => [name, actual[name]])), expected)
}

/** Asserts that lists have the same members, in any order. */
export function assertSame(actual: readonly string[], expected: readonly string[]): void {
  assert.deepEqual([...actual].sort(), [...expected].sort())
}

/** Lets the event loop turn until a condition holds, up to 100 times. */
export async function turns(isSo: () => boolean): Promise<void> {
  for (let turn = 0; turn < 100 && !isSo(); turn++) await new Promise(resolve => setImmediate(resolve))
}

/** How often somebody who watches the store is called during an act, and soon after it. */
export async function callsDuring(store: StoreContract, act: () => Promise<unknown>): Promise<number> {
  let calls = 0
  const stop = store.watch(() => calls++)
  await act()
  await turns(() => calls > 0)
  stop()
  return calls
}
