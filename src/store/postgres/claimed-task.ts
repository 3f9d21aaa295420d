import { errorClass } from '../rows.js'
import type { ClaimedTask } from '../store.js'
import { stored } from './text.js'

/** A task as the function `start` returns it. */
export type StartedRow = [
  id: string,
  kind: string,
  category: string,
  key: string,
  priority: number,
  submittedAt: number,
  startedAt: number,
  token: string,
  payload: string,
  history: HistoryRow | null,
]

/** What a task has been through. */
type HistoryRow = [
  attempts: number,
  deferrals: number,
  losses: number,
  isUndecided: boolean,
  previousDelayMs: number | null,
  errorClass: string | null,
  errorCode: string | null,
  errorMessage: string | null,
]

const NOTHING_YET: HistoryRow = [0, 0, 0, false, null, null, null, null]

/** The task that a row stands for. */
export function claimedTask(row: StartedRow, now: number): ClaimedTask {
  const [id, kind, category, key, priority, submittedAt, startedAt, token, payload, history] = row
  const [attempts, deferrals, losses, isUndecided, previousDelayMs, error, code, message] = history ?? NOTHING_YET
  return {
    id,
    kind,
    category,
    key,
    payload,
    status: 'running',
    priority,
    submittedAt,
    startedAt,
    nextAttemptAt: undefined,
    attempts,
    deferrals,
    losses,
    previousDelayMs: previousDelayMs ?? undefined,
    errorClass: errorClass(error),
    errorCode: stored(code ?? undefined),
    errorMessage: stored(message ?? undefined),
    reason: undefined,
    result: undefined,
    changedAt: now,
    token,
    isUndecided,
  }
}
