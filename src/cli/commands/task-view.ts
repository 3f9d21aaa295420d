import type { LedgerRow, TaskRecord } from '../../store/index.js'
import { iso } from '../terminal/times.js'

/** How many attempts failed and were scheduled again. The last one of a dead letter was not. */
export function retryCount({ status, attempts }: TaskRecord): number {
  return Math.max(0, status === 'dead' ? attempts - 1 : attempts)
}

/** When a retry is due; a task that waits for its first attempt has none. */
export function nextRetryAt({ status, attempts, deferrals, nextAttemptAt }: TaskRecord): number | undefined {
  return status === 'waiting' && attempts + deferrals > 0 ? nextAttemptAt : undefined
}

/** A task as JSON: times as ISO text, `null` for what there is none of. */
export function taskJson(task: TaskRecord) {
  return {
    id: task.id,
    kind: task.kind,
    category: task.category,
    key: task.key,
    status: task.status,
    priority: task.priority,
    submittedAt: iso(task.submittedAt),
    changedAt: iso(task.changedAt),
    nextAttemptAt: isoOrNull(task.nextAttemptAt),
    retryCount: retryCount(task),
    nextRetryAt: isoOrNull(nextRetryAt(task)),
    attempts: task.attempts,
    deferrals: task.deferrals,
    losses: task.losses,
    errorClass: task.errorClass ?? null,
    errorCode: task.errorCode ?? null,
    errorMessage: task.errorMessage ?? null,
    reason: task.reason ?? null,
    payload: parsed(task.payload),
    result: task.result === undefined ? null : parsed(task.result),
  }
}

/** A row of the ledger as JSON. */
export function ledgerRowJson(row: LedgerRow) {
  return {
    sequence: row.sequence,
    attempt: row.attempt,
    startedAt: iso(row.startedAt),
    endedAt: iso(row.endedAt),
    worker: row.worker,
    outcome: row.outcome,
    verdict: row.verdict ?? null,
    delayMs: row.delayMs ?? null,
    reason: row.reason ?? null,
    error: row.error ?? null,
    random: row.random ?? null,
    policy: row.policy ?? null,
  }
}

/** The value of a JSON text; the text itself if it is none, or too deep to be written again. */
function parsed(json: string): unknown {
  try {
    const value: unknown = JSON.parse(json)
    JSON.stringify(value)
    return value
  } catch {
    return json
  }
}

function isoOrNull(at: number | undefined): string | null {
  return at === undefined ? null : iso(at)
}
