import type { Settlement } from '../contract/claim.js'
import type { FailureGroup } from '../contract/group-store.js'
import type { AttemptEntry } from '../contract/ledger.js'
import type { Cost } from '../contract/task.js'
import { storable } from './text.js'

/** The place of a settlement: its number in the batch, and the state in which its task must be. */
interface Place {
  readonly n: number
  readonly round: number
  readonly advances?: number
}

type Row = Readonly<Record<string, string | number | boolean | undefined>>

/** Outcomes with the facts of their groups, as the SQL functions `settle_outcomes` and `advance_tried` take them. */
export class Reports {
  readonly #outcomes: Row[] = []
  readonly #groups = new Map<string, object>()

  add(settlement: Omit<Settlement, 'token'>, place: Place): void {
    const group = groupOf(settlement)
    if (group !== undefined && !this.#groups.has(group.id)) this.#groups.set(group.id, groupRow(group))
    this.#outcomes.push(outcomeRow(settlement, place))
  }

  /** JSON in which fields that all outcomes have in common come once: most failures of a batch differ in little. `undefined` if there are none. */
  encode(): string | undefined {
    const [first, ...others] = this.#outcomes
    if (first === undefined) return undefined
    const shared: Record<string, Row[string]> = {}
    const own: string[] = []
    for (const [name, value] of Object.entries(first)) {
      if (others.every(other => other[name] === value)) shared[name] = value
      else own.push(name)
    }
    const outcomes = JSON.stringify(this.#outcomes, own)
    return `{"outcomes":${outcomes},"shared":${JSON.stringify(shared)},"groups":${JSON.stringify([...this.#groups.values()])}}`
  }
}

/** All rows have the same fields, in the same order. */
function outcomeRow(settlement: Omit<Settlement, 'token'>, { n, round, advances }: Place): Row {
  const { id, outcome, attempt } = settlement
  const { type } = outcome
  const isAdvance = type === 'advanced'
  return {
    n,
    id,
    round,
    advances,
    type,
    delay: 'delayMs' in outcome ? outcome.delayMs : undefined,
    is_backoff: type === 'retry' && outcome.isBackoff,
    result: type === 'succeeded' ? outcome.result : undefined,
    reason: 'reason' in outcome ? storable(outcome.reason) : undefined,
    to: isAdvance ? outcome.to : undefined,
    value: isAdvance ? outcome.value : undefined,
    cost: isAdvance ? costText(outcome.cost) : undefined,
    ...attemptRow(attempt),
    failure_group: groupOf(settlement)?.id,
  }
}

/** The group of the failure that an attempt ended with. A lost one has no verdict yet. */
function groupOf({ outcome, attempt }: Omit<Settlement, 'token'>): FailureGroup | undefined {
  return attempt?.verdict !== undefined || outcome.type === 'lost' ? attempt?.group : undefined
}

/** A cost as its column has it. */
export function costText(cost: Cost | undefined): string | undefined {
  return cost && JSON.stringify(cost)
}

/** An attempt as the ledger keeps it. */
function attemptRow(entry: Partial<AttemptEntry> = {}): Row {
  const {
    attempt,
    startedAt,
    endedAt,
    worker,
    verdict,
    error,
    stack,
    random,
    policy,
    version,
    call,
    trace,
    release,
    notes,
  } = entry
  return {
    attempt,
    began: rounded(startedAt),
    ended: rounded(endedAt),
    worker,
    error_class: verdict?.class,
    error_code: storable(verdict?.code),
    retry_after: verdict?.class === 'rate_limited' ? rounded(verdict.retryAfterMs) : undefined,
    error: storable(error),
    stack: storable(stack),
    random,
    policy,
    version,
    call,
    trace,
    release,
    failure_group: verdict && entry.group?.id,
    notes: notes && JSON.stringify(notes),
  }
}

/** An attempt with the facts of its group. */
export function attemptDetails(entry: AttemptEntry): object {
  const { group, verdict } = entry
  return { ...attemptRow(entry), group: verdict && group && groupRow(group) }
}

function rounded(time: number | undefined): number | undefined {
  return time === undefined ? undefined : Math.round(time)
}

/** The facts of a group as SQL functions take them. */
export function groupRow({ id, kind, code, errorName, pattern, frames }: FailureGroup): object {
  return {
    id,
    kind,
    code: storable(code),
    error_name: storable(errorName),
    pattern: storable(pattern),
    frames: storable(JSON.stringify(frames)),
  }
}
