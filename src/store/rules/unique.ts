import type { Enqueued, NewTask, TaskStatus, UniqueConflict, UniqueScope } from '../contract/task.js'

/**
 * The rules of unique keys. Pure. Memory and SQLite share them; PostgreSQL has them in functions/unique.sql, and the
 * conformance suite holds for all three.
 *
 * A key is a row: of a kind and a key, the task that has it, and the one that waits for that to end. Whether the task still
 * has it follows from where that stands, so no statement that moves a task can meet a conflict, and a claim does not touch
 * the row. The end of a task deletes its row, or hands it on to the task that waits.
 */

/** A task that waits for its twin to end is due at this time, the last that there is, until then. */
export const QUEUED_UNTIL = 8.64e15

/** The row of a key. */
export interface KeyRow {
  /** The task that has it. */
  readonly task: string
  /** When the task got it. */
  readonly since: number
  /** With `within`: until when it has it. */
  readonly until: number | undefined
  /** The task that waits for its end, and when that is to be due. */
  readonly next: string | undefined
  readonly nextAt: number | undefined
}

/** A task as the rules read it. */
export interface KeyHolder {
  /** `undefined`: it was pruned. */
  readonly status: TaskStatus | undefined
  /** Whether an attempt has begun since it was enqueued or last redriven. One that was handed back has not. */
  readonly hasBegun: boolean
  readonly scope: UniqueScope | undefined
}

/** What to do about a twin. `behind` waits for its end like `after`, and cancels nothing: a redrive brings old work back. */
export type Conflict = UniqueConflict | 'behind'

/** What becomes of a task that meets its twin. */
export type Meeting =
  | { readonly outcome: 'created' }
  | { readonly outcome: 'kept' }
  | { readonly outcome: 'postponed'; readonly dueAt: number }
  /** `cancel` are the tasks that it stands in for. If it `isQueued`, it waits for the twin to end. */
  | {
      readonly outcome: 'replaced' | 'queued_after'
      readonly cancel: readonly string[]
      readonly isQueued: boolean
    }

/** Whether a task still has the key of a row. */
export function hasKey({ until, next }: KeyRow, { status, hasBegun, scope }: KeyHolder, now: number): boolean {
  if (until !== undefined && now < until) return true
  // Somebody waits for its end, whatever its own scope is.
  if (next !== undefined) return isUnfinished(status)
  if (scope === 'waiting') return status === 'waiting' && !hasBegun
  return scope === 'unfinished' && isUnfinished(status)
}

function isUnfinished(status: TaskStatus | undefined): boolean {
  return status === 'waiting' || status === 'running'
}

/** What becomes of a task whose key has a row. It is due at `dueAt`. */
export function meetTwin(
  row: KeyRow,
  twin: KeyHolder,
  conflict: Conflict,
  { dueAt, maxWaitMs = 0 }: { readonly dueAt: number; readonly maxWaitMs?: number | undefined },
  now: number,
): Meeting {
  const isRunning = twin.status === 'running'
  const successor = row.next === undefined ? [] : [row.next]
  if (!hasKey(row, twin, now)) return { outcome: 'created' }
  if (conflict === 'keep') return { outcome: 'kept' }
  // A task may have ended, and keep its key for a time.
  if (!isUnfinished(twin.status)) return { outcome: 'created' }
  if (conflict === 'behind')
    return row.next === undefined ? { outcome: 'queued_after', cancel: [], isQueued: true } : { outcome: 'kept' }
  if (conflict === 'replace') return { outcome: 'replaced', cancel: [row.task, ...successor], isQueued: isRunning }
  if (isRunning || twin.hasBegun) return { outcome: 'queued_after', cancel: successor, isQueued: true }
  if (conflict === 'after') return { outcome: 'replaced', cancel: [row.task, ...successor], isQueued: false }
  return { outcome: 'postponed', dueAt: Math.min(dueAt, row.since + Math.ceil(maxWaitMs)) }
}

/** The row of a key for a task that gets it. */
export function keyRow(task: string, withinMs: number | undefined, now: number): KeyRow {
  const until = withinMs === undefined ? undefined : now + Math.ceil(withinMs)
  return { task, since: now, until, next: undefined, nextAt: undefined }
}

/** Who asked for the end of a task that another one replaces, as the ledger has it. */
export const replacedBy = (id: string) => ({ who: 'enqueue', why: `replaced by ${id}` })

/** When a new task is due. */
export function dueOf({ runAt }: Pick<NewTask, 'runAt'>, now: number): number {
  return Math.ceil(runAt ?? now)
}

/** The answer for a task that is new. */
export function created(id: string): Enqueued {
  return { id, isNew: true, outcome: 'created' }
}

/** The answer for a task that was not added, since another one stands. */
export function stands(
  id: string,
  outcome: 'kept' | 'postponed',
  there: { readonly status?: TaskStatus | undefined; readonly since?: number | undefined } = {},
): Enqueued {
  const { status, since } = there
  return { id, isNew: false, outcome, ...(status && { status }), ...(since !== undefined && { since }) }
}
