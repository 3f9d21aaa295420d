import type { By } from '../contract/ledger.js'
import type { TwinRule } from '../contract/operation-store.js'
import type { Enqueued, EnqueueOutcome, NewTask, TaskStatus, UniqueKey } from '../contract/task.js'
import {
  type Conflict,
  dueOf,
  hasKey,
  type KeyHolder,
  type KeyRow,
  keyRow,
  type Meeting,
  meetTwin,
  replacedBy,
  stands,
} from './unique.js'

/** The rows of unique keys, on a store that answers at once. */
export interface KeyRows {
  row(kind: string, key: string): KeyRow | undefined
  save(kind: string, key: string, row: KeyRow): void
  drop(kind: string, key: string): void
  /** Lets a task run that waited for its twin to end. */
  free(id: string, dueAt: number, now: number): void
}

/** What follows from a key for the tasks that it names. */
export interface KeyHost extends KeyRows {
  /** The task that has a key; `undefined` if it was pruned. */
  holder(id: string): (KeyHolder & { readonly since: number }) | undefined
  cancel(ids: readonly string[], by: By, now: number): void
  /** Gives a task that waits another payload and another time. */
  postpone(id: string, payload: string, dueAt: number, now: number): void
  /** Makes a task wait until its twin ends. */
  queue(id: string): void
}

/** What became of a new task with a key: it is to be added, or another one stands. */
export type Taken =
  | { readonly outcome: Exclude<EnqueueOutcome, 'kept' | 'postponed'>; readonly isQueued: boolean }
  | { readonly stands: Enqueued }

/** Takes the key of a new task, or does what follows from its conflict. */
export function takeKey(
  host: KeyHost,
  { kind, payload, ...task }: NewTask,
  id: string,
  { key, withinMs, conflict, maxWaitMs }: UniqueKey,
  now: number,
): Taken {
  const dueAt = dueOf(task, now)
  const { row, twin, met } = meeting(host, { kind, key }, conflict, { dueAt, maxWaitMs }, now)
  if (row !== undefined && met.outcome === 'kept') return { stands: stands(row.task, 'kept', twin) }
  if (row !== undefined && met.outcome === 'postponed') {
    host.postpone(row.task, payload, met.dueAt, now)
    return { stands: stands(row.task, 'postponed', { ...twin, since: now }) }
  }
  const isQueued = 'isQueued' in met && met.isQueued
  host.save(kind, key, isQueued && row ? { ...row, next: id, nextAt: dueAt } : keyRow(id, withinMs, now))
  if ('cancel' in met) host.cancel(met.cancel, replacedBy(id), now)
  return { outcome: met.outcome as Exclude<EnqueueOutcome, 'kept' | 'postponed'>, isQueued }
}

/** A dead task that is to be redriven, with the key that it had. */
export interface LostKey {
  readonly id: string
  readonly kind: string
  readonly key: string
}

/** What became of a dead task that asked for its key. */
export interface Retaken {
  readonly id: string
  readonly outcome: 'taken' | 'queued' | 'refused'
}

/** What a redrive does about a twin. */
export const CONFLICT_OF: Readonly<Record<TwinRule, Conflict>> = { skip: 'keep', replace: 'replace', after: 'behind' }

/** Gives dead tasks their keys back, before they are redriven. Of those with the same key, only the first gets it. */
export function retakeKeys(host: KeyHost, lost: readonly LostKey[], twin: TwinRule, now: number): Retaken[] {
  const mine = new Set<string>()
  return lost.map(task => {
    const row = host.row(task.kind, task.key)
    const isMine = row !== undefined && (mine.has(row.task) || mine.has(row.next ?? ''))
    if (isMine) return { id: task.id, outcome: 'refused' }
    const retaken = retakeKey(host, task, twin, now)
    if (retaken.outcome !== 'refused') mine.add(task.id)
    return retaken
  })
}

function retakeKey(host: KeyHost, { id, kind, key }: LostKey, twin: TwinRule, now: number): Retaken {
  const { row, met } = meeting(host, { kind, key }, CONFLICT_OF[twin], { dueAt: now }, now)
  if (met.outcome === 'kept') return { id, outcome: 'refused' }
  const isQueued = 'isQueued' in met && met.isQueued
  host.save(kind, key, isQueued && row ? { ...row, next: id, nextAt: now } : keyRow(id, undefined, now))
  if ('cancel' in met) host.cancel(met.cancel, { who: 'redrive', why: `replaced by ${id}` }, now)
  return { id, outcome: isQueued ? 'queued' : 'taken' }
}

function meeting(
  host: KeyHost,
  { kind, key }: Omit<LostKey, 'id'>,
  conflict: Conflict,
  times: { readonly dueAt: number; readonly maxWaitMs?: number | undefined },
  now: number,
): { readonly row: KeyRow | undefined; readonly twin: Twin | undefined; readonly met: Meeting } {
  const row = host.row(kind, key)
  if (row === undefined) return { row, twin: undefined, met: { outcome: 'created' } }
  const twin = host.holder(row.task)
  return { row, twin, met: meetTwin(row, twin ?? GONE, conflict, times, now) }
}

type Twin = KeyHolder & { readonly status: TaskStatus | undefined; readonly since: number }

const GONE: KeyHolder = { status: undefined, hasBegun: false, scope: undefined }

/** After the end of a task: its key is free, or that of the task which waited for this. Returns whether one did. */
export function releaseKey(host: KeyRows, { id, kind, key }: LostKey, now: number): boolean {
  const row = host.row(kind, key)
  if (row?.next === id) host.save(kind, key, { ...row, next: undefined, nextAt: undefined })
  if (row?.task !== id) return false
  if (row.next !== undefined) {
    host.save(kind, key, keyRow(row.next, undefined, now))
    host.free(row.next, row.nextAt ?? now, now)
    return true
  }
  if (row.until === undefined || row.until <= now) host.drop(kind, key)
  return false
}

/** The live task that has the key of another one, which is dead; `undefined` if there is none. */
export function twinOf(host: KeyHost, { kind, key }: Omit<LostKey, 'id'>, now: number): string | undefined {
  const row = host.row(kind, key)
  const twin = row && host.holder(row.task)
  return row && twin && hasKey(row, twin, now) ? row.task : undefined
}
