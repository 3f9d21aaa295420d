import type { ClaimedTask } from '../contract/claim.js'
import { errorClass } from '../rules/rows.js'
import { LaneQueue } from './lane-queue.js'
import { SharedClaim } from './shared-claim.js'
import type { OpenLaneRow, ReadyRow } from './statements/claim.js'
import { type HistoryRow, type HistoryValues, historyRow } from './statements/standing-row.js'
import type { Statements } from './statements.js'
import { makeClaim, tokenOf } from './token.js'

const NO_HISTORY: HistoryRow = {
  attempts: 0,
  deferrals: 0,
  losses: 0,
  undecided: 0,
  previous_delay: null,
  error_class: null,
  error_code: null,
  error_message: null,
  failure_group: null,
}

/** The tasks that a claim takes. They are started in batches: one by one they would cost half as much again. */
export class ClaimBatch {
  readonly tasks: ClaimedTask[] = []
  readonly now: number
  readonly shared: SharedClaim
  /** Whether tasks that must run alone are ready, in any lane. Mostly not, and then none has to be looked for. */
  readonly isAnyAlone: boolean
  readonly #statements: Statements
  readonly #worker: string
  readonly #claim = makeClaim()
  /** Taken and not started yet. */
  #taken: number[] = []

  constructor(statements: Statements, worker: string, now: number) {
    this.#statements = statements
    this.#worker = worker
    this.now = now
    this.shared = new SharedClaim(statements, now)
    this.isAnyAlone = statements.isAnyAlone.get() === 1
  }

  take(lane: OpenLaneRow, row: ReadyRow): void {
    const [seq] = row
    this.tasks.push(claimedTask(lane, row, tokenOf(seq, lane.id, this.#claim), this.now))
    this.#taken.push(seq)
    this.shared.start(lane, seq)
  }

  /** Starts the tasks that were taken, so that they are not ready any more. */
  start(): void {
    if (this.#taken.length === 0) return
    this.#statements.start.run(this.#taken, this.#worker, this.#claim, this.now, this.now)
    this.#taken = []
  }

  /** Counts the tasks that were taken from a lane, also against its rate. */
  charge(lane: OpenLaneRow, taken: number): void {
    if (taken === 0) return
    const { now } = this
    this.#statements.count.run(-taken, taken, 0, 0, 0, 0, lane.id)
    if (lane.per_second === null) return
    this.#statements.takeFromLane.run({ id: lane.id, now, tokens: LaneQueue.tokens(lane, now) - taken })
  }
}

function claimedTask(
  { kind, category, key }: OpenLaneRow,
  [, id, priority, submittedAt, startedAt, payload, value, traceparent, policy, values]: ReadyRow,
  token: string,
  now: number,
): ClaimedTask {
  const known = values === null ? undefined : (JSON.parse(values) as [...HistoryValues, hasSteps: number])
  const history = known === undefined ? NO_HISTORY : historyRow(known)
  return {
    id,
    kind,
    category,
    key,
    payload,
    value: value ?? undefined,
    status: 'running',
    priority,
    submittedAt,
    startedAt,
    nextAttemptAt: undefined,
    attempts: history.attempts,
    deferrals: history.deferrals,
    losses: history.losses,
    previousDelayMs: history.previous_delay ?? undefined,
    errorClass: errorClass(history.error_class),
    errorCode: history.error_code ?? undefined,
    errorMessage: history.error_message ?? undefined,
    group: history.failure_group ?? undefined,
    reason: undefined,
    result: undefined,
    changedAt: now,
    traceparent: traceparent ?? undefined,
    policy: policy ?? undefined,
    token,
    isFirst: values === null,
    isUndecided: history.undecided === 1,
    hasSteps: known?.[9] === 1,
  }
}
