import type { ClaimedTask } from '../contract/claim.js'
import { errorClass } from '../rules/rows.js'
import { stored } from './text.js'
import { tokenOf } from './token.js'

/** Tasks as the SQL function `start` returns them: column by column. */
export interface StartedTasks {
  readonly claim: number
  readonly lanes: readonly [id: number, kind: string, category: string, key: string][]
  readonly lane: readonly number[]
  readonly id: readonly string[]
  readonly round: readonly number[]
  readonly priority: readonly number[]
  readonly submitted_at: readonly number[]
  readonly started_at: readonly number[]
  readonly payload: readonly string[]
  /** `null` if no task has one. */
  readonly value: readonly (string | null)[] | null
  /** `null` if no task has one. */
  readonly traceparent: readonly (string | null)[] | null
  /** `null` if no task has one. */
  readonly policy: readonly (string | null)[] | null
  /** How often each has advanced. `null` if none has. */
  readonly advances: readonly number[] | null
  readonly history: readonly (History | null)[]
}

/** The counters and the last error of a task that was tried before. */
type History = [
  attempts: number,
  deferrals: number,
  losses: number,
  isUndecided: boolean,
  previousDelayMs: number | null,
  errorClass: string | null,
  errorCode: string | null,
  errorMessage: string | null,
  group: string | null,
  hasSteps: boolean,
]

const NEVER_TRIED: History = [0, 0, 0, false, null, null, null, null, null, false]

/** The tasks in these columns. */
export function claimedTasks(started: StartedTasks, now: number): ClaimedTask[] {
  const lanes = new Map(started.lanes.map(([id, kind, category, key]) => [id, { kind, category, key }]))
  return started.id.map((id, n) => {
    const laneId = started.lane[n] ?? 0
    const lane = lanes.get(laneId) ?? { kind: '', category: '', key: '' }
    const [attempts, deferrals, losses, isUndecided, previousDelayMs, error, code, message, group, hasSteps] =
      started.history[n] ?? NEVER_TRIED
    return {
      id,
      kind: lane.kind,
      category: lane.category,
      key: lane.key,
      payload: started.payload[n] ?? '',
      value: columnAt(started.value, n),
      status: 'running',
      priority: started.priority[n] ?? 0,
      submittedAt: started.submitted_at[n] ?? 0,
      startedAt: started.started_at[n] ?? 0,
      nextAttemptAt: undefined,
      attempts,
      deferrals,
      losses,
      previousDelayMs: previousDelayMs ?? undefined,
      errorClass: errorClass(error),
      errorCode: stored(code ?? undefined),
      errorMessage: stored(message ?? undefined),
      group: group ?? undefined,
      reason: undefined,
      result: undefined,
      changedAt: now,
      traceparent: columnAt(started.traceparent, n),
      policy: columnAt(started.policy, n),
      token: tokenOf({
        claim: started.claim,
        n: n + 1,
        round: started.round[n] ?? 0,
        lane: laneId,
        advances: started.advances?.[n] ?? 0,
      }),
      isFirst: started.history[n] === null,
      isUndecided,
      hasSteps,
    }
  })
}

function columnAt(column: readonly (string | null)[] | null, n: number): string | undefined {
  return column?.[n] ?? undefined
}
