/** The counters and the last error of a task. */
export interface HistoryRow {
  readonly attempts: number
  readonly deferrals: number
  readonly losses: number
  readonly undecided: number
  readonly previous_delay: number | null
  readonly error_class: string | null
  readonly error_code: string | null
  readonly error_message: string | null
  readonly failure_group: string | null
}

/** The columns of a `HistoryRow` as an array, which the driver makes in a quarter of the time. */
export type HistoryValues = [
  attempts: number,
  deferrals: number,
  losses: number,
  undecided: number,
  previousDelay: number | null,
  errorClass: string | null,
  errorCode: string | null,
  errorMessage: string | null,
  failureGroup: string | null,
]

export const HISTORY_COLUMNS = /* sql */ `
  attempts, deferrals, losses, undecided, previous_delay, error_class, error_code, error_message, failure_group`

/** The history in the columns of `HISTORY_COLUMNS`. */
export function historyRow(values: readonly [...HistoryValues, ...unknown[]]): HistoryRow {
  return {
    attempts: values[0],
    deferrals: values[1],
    losses: values[2],
    undecided: values[3],
    previous_delay: values[4],
    error_class: values[5],
    error_code: values[6],
    error_message: values[7],
    failure_group: values[8],
  }
}

/** The part of a task that the rules of a settlement read, and where it is kept. */
export interface StandingRow extends HistoryRow {
  readonly seq: number
  readonly id: string
  readonly lane: number
  readonly entries: number
  readonly started_at: number
  readonly cancel_requested: number
  /** When it was claimed, while it runs. */
  readonly ran_from: number | null
  readonly changed_at: number
  readonly reason: string | null
  /** The operation that moved it, and whether it has made a counted attempt since. */
  readonly operation: string | null
  readonly answered: number
  readonly unique_key: string | null
}

/** The columns of a `StandingRow` as an array. */
export type StandingValues = [
  ...history: HistoryValues,
  seq: number,
  id: string,
  lane: number,
  entries: number,
  startedAt: number,
  cancelRequested: number,
  ranFrom: number | null,
  changedAt: number,
  reason: string | null,
  operation: string | null,
  answered: number,
  uniqueKey: string | null,
]

export const STANDING_COLUMNS = /* sql */ `
  ${HISTORY_COLUMNS}, seq, id, lane, entries, started_at, cancel_requested, ran_from, changed_at, reason, operation, answered,
  unique_key`

/** The standing in the columns of `STANDING_COLUMNS`. */
export function standingRow(values: StandingValues): StandingRow {
  return {
    attempts: values[0],
    deferrals: values[1],
    losses: values[2],
    undecided: values[3],
    previous_delay: values[4],
    error_class: values[5],
    error_code: values[6],
    error_message: values[7],
    failure_group: values[8],
    seq: values[9],
    id: values[10],
    lane: values[11],
    entries: values[12],
    started_at: values[13],
    cancel_requested: values[14],
    ran_from: values[15],
    changed_at: values[16],
    reason: values[17],
    operation: values[18],
    answered: values[19],
    unique_key: values[20],
  }
}
