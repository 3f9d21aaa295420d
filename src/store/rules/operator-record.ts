import { membersOf } from '../../policy/internal.js'
import type { BudgetScope } from '../contract/budget-store.js'
import type { GroupRule } from '../contract/group-rule.js'
import type { GroupMark } from '../contract/group-store.js'
import type { LaneLimits, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type {
  DocumentSet,
  MessageSet,
  OperationSet,
  OperationSettings,
  OperationTally,
  SlotSet,
} from '../contract/operation-store.js'
import type { ReprocessFilter, RunChange } from '../contract/run-store.js'
import type { Cost } from '../contract/task.js'
import type { BudgetSettings } from './budgets/check-budget.js'
import { objectText } from './json-object.js'
import type { OperationState } from './operations/operation-rules.js'
import { isShared } from './shared-limit.js'

/** An operator's act as the audit log keeps it, in the log's spelling. Written in the transaction that carries it out. */
export type OperatorRecord = OperatorAct & {
  readonly who: string
  readonly why: string | null
  /** The store's clock: ISO 8601, in UTC. */
  readonly timestamp: string
}

/** Limits in the log's spelling. */
type RecordedLimits =
  | {
      readonly concurrency?: number
      readonly per_second?: number
      readonly is_ordered?: boolean
      readonly on_dead?: 'block'
    }
  | {
      readonly is_shared: true
      readonly is_per_quota?: true
      readonly concurrency?: number
      readonly rates?: Readonly<Record<string, { readonly per_second: number; readonly burst?: number }>>
    }

/** A failure budget in the log's spelling. */
interface RecordedFailureBudget {
  readonly share: number
  readonly min_attempts: number
  readonly window_ms: number
  readonly hold_ms: number
}

/** A retry budget in the log's spelling. */
interface RecordedRetryBudget {
  readonly share: number
  readonly window_ms: number
  readonly floor: number
  readonly dependency?: string
}

type OperatorAct =
  | EditAct
  | MarkAct
  | RuleAct
  | OperationEvent
  /** `ids` has the first hundred of those that have ended or will end, `count` their number. */
  | {
      readonly event_type: 'tasks_cancelled' | 'tasks_discarded' | 'tasks_completed' | 'tasks_failed' | 'tasks_deleted'
      readonly count: number
      readonly ids: readonly string[]
    }
  | { readonly event_type: 'lanes_paused' | 'lanes_resumed'; readonly lanes: LaneSelection }
  | {
      readonly event_type: 'lanes_limited'
      readonly lanes: LaneSelection
      readonly limits: RecordedLimits
    }
  /** Without settings, the budget was lifted. */
  | {
      readonly event_type: 'budget_set' | 'budget_lifted'
      readonly scope: BudgetScope
      readonly failures?: RecordedFailureBudget | undefined
      readonly retries?: RecordedRetryBudget | undefined
      readonly cost?: { readonly amounts: Cost; readonly window_ms: number } | undefined
    }
  | { readonly event_type: 'budget_gate_closed'; readonly scope: BudgetScope }
  | {
      readonly event_type: 'run_changed'
      readonly run: string
      readonly settings?: RunChange['settings']
      readonly is_paused?: boolean
      readonly stages?: readonly string[]
      readonly version?: string
      readonly source_error?: string
    }
  | ScheduleAct
  /** `count` dead members were redriven, after it had ended. */
  | { readonly event_type: 'batch_reopened'; readonly batch: string; readonly count: number }
  | { readonly event_type: 'batch_closed'; readonly batch: string }
  /** Once for each run, when its cancellation begins. */
  | { readonly event_type: 'run_cancelled'; readonly run: string }
  /** `as` is the stage that they were moved to, `reopened` the runs that had ended. */
  | {
      readonly event_type: 'items_reprocessed'
      readonly pipeline: string
      readonly run?: string
      readonly stage?: string
      readonly error_code?: string
      readonly as?: string
      readonly count: number
      readonly reopened: readonly string[]
    }

/** What happened to a schedule. */
type ScheduleAct =
  | {
      readonly event_type:
        | 'schedule_created'
        | 'schedule_changed'
        | 'schedule_paused'
        | 'schedule_resumed'
        | 'schedule_removed'
      readonly schedule: string
    }
  /** A run that was started beside the slots. */
  | {
      readonly event_type: 'schedule_run'
      readonly schedule: string
      readonly runs: RecordedIds
    }
  /** Slots that nothing fired in time, from the first to the last. */
  | {
      readonly event_type: 'slots_missed'
      readonly schedule: string
      readonly from: string
      readonly to: string
      readonly reason: string
    }

/** A task as an edit left it: the original payload is in its ledger. */
type EditAct = { readonly event_type: 'task_edited'; readonly task: string }

/** A mark of a failure group. */
type MarkAct = {
  readonly event_type: 'group_marked'
  readonly group: string
  readonly state: GroupMark['state']
  readonly release?: string | undefined
  /** When it is ignored no longer. `at` is ISO 8601, in UTC. */
  readonly until?: { readonly at?: string; readonly count?: number; readonly per_hour?: number }
}

/** A rule about failure groups that was added or removed. Without a kind, it is about every kind. */
type RuleAct = {
  readonly event_type: 'group_rule_added' | 'group_rule_removed'
  readonly rule: number
  readonly kind?: string | undefined
  readonly pattern: string
}

/** Tasks that were named, in the log's spelling. */
export interface RecordedIds {
  /** How many were named. */
  readonly named: number
  /** The first hundred of them. */
  readonly ids: readonly string[]
}

/** A set in the log's spelling. Its time is ISO 8601, in UTC. */
type RecordedSet =
  | RecordedIds
  | (Omit<Extract<OperationSet, { readonly filter: unknown }>, 'until'> & { readonly until: string })
  | (Omit<DocumentSet, 'until'> & { readonly until: string })
  | (Omit<SlotSet, 'from' | 'to'> & { readonly from: string; readonly to: string })
  | MessageSet

/** An operation in the log's spelling. */
type OperationEvent =
  | {
      readonly event_type: 'operation_created' | 'operation_stopped' | 'operation_continued' | 'operation_undone'
      readonly operation: string
      readonly act: OperationState['act']
      readonly set: RecordedSet
      /** The values of a patch may be secret: only its fields are recorded. */
      readonly settings: Omit<OperationSettings, 'patch'> & { readonly patched?: readonly string[] }
      readonly moved: number
      readonly undone: number
    }
  | {
      readonly event_type: 'operation_ended'
      readonly operation: string
      readonly act: OperationState['act']
      readonly status: OperationState['status']
      readonly reason: string | undefined
      readonly moved: number
      readonly tally: OperationTally
    }

/** A record must stay readable, and fit on a page, however many tasks it is about. */
const MAX_IDS = 100

/** Named tasks as they are recorded. */
export function recordedIds(ids: readonly string[]): RecordedIds {
  return { named: ids.length, ids: ids.slice(0, MAX_IDS) }
}

/** The record of a cancellation, as JSON. */
export function cancelRecord(ids: readonly string[], by: By, now: number): string {
  return recordOf({ event_type: 'tasks_cancelled', count: ids.length, ids: ids.slice(0, MAX_IDS) }, by, now)
}

/** The record of dead letters that were discarded, as JSON. */
export function discardRecord(ids: readonly string[], by: By, now: number): string {
  return recordOf({ event_type: 'tasks_discarded', count: ids.length, ids: ids.slice(0, MAX_IDS) }, by, now)
}

/** The record of tasks that a person has completed, failed or deleted, as JSON. */
export function byHandRecord(
  event_type: 'tasks_completed' | 'tasks_failed' | 'tasks_deleted',
  ids: readonly string[],
  by: By,
  now: number,
): string {
  return recordOf({ event_type, count: ids.length, ids: ids.slice(0, MAX_IDS) }, by, now)
}

/** The record of a pause or of its end, as JSON. */
export function pauseRecord(lanes: LaneSelection, isPaused: boolean, by: By, now: number): string {
  return recordOf({ event_type: isPaused ? 'lanes_paused' : 'lanes_resumed', lanes: named(lanes) }, by, now)
}

/** The record of new limits, as JSON. */
export function limitRecord(lanes: LaneSelection, limits: LaneLimits | SharedLimits, by: By, now: number): string {
  return recordOf({ event_type: 'lanes_limited', lanes: named(lanes), limits: recorded(limits) }, by, now)
}

/** The record of a budget that was set or, without settings, lifted, as JSON. */
export function budgetRecordOf(
  { kind, category }: BudgetScope,
  settings: BudgetSettings | undefined,
  by: By,
  now: number,
): string {
  const scope = { kind, category }
  if (settings === undefined) return recordOf({ event_type: 'budget_lifted', scope }, by, now)
  const { failures, retries, cost } = settings
  const act: OperatorAct = {
    event_type: 'budget_set',
    scope,
    failures: failures && {
      share: failures.share,
      min_attempts: failures.minAttempts,
      window_ms: failures.windowMs,
      hold_ms: failures.holdMs,
    },
    retries: retries && {
      share: retries.share,
      window_ms: retries.windowMs,
      floor: retries.floor,
      ...(retries.dependency !== undefined && { dependency: retries.dependency }),
    },
    cost: cost && { amounts: cost.amounts, window_ms: cost.windowMs },
  }
  return recordOf(act, by, now)
}

/** The record of a gate that was closed by hand, as JSON. */
export function gateClosedRecord({ kind, category }: BudgetScope, by: By, now: number): string {
  return recordOf({ event_type: 'budget_gate_closed', scope: { kind, category } }, by, now)
}

function recorded(limits: LaneLimits | SharedLimits): RecordedLimits {
  if (!isShared(limits)) {
    const { concurrency, perSecond: per_second, isOrdered: is_ordered, onDead: on_dead } = limits
    return { concurrency, per_second, is_ordered, on_dead }
  }
  const rates = Object.entries(limits.rates ?? {})
  const inLog = rates.map(([name, { perSecond: per_second, burst }]) => [name, { per_second, burst }] as const)
  const { isPerQuota, concurrency } = limits
  return { is_shared: true, ...(isPerQuota && { is_per_quota: true }), concurrency, rates: Object.fromEntries(inLog) }
}

/** The record of a change of a run, as JSON. */
export function changeRunRecord(run: string, change: RunChange, by: By, now: number): string {
  const { settings, isPaused: is_paused, stages, version, sourceError: source_error } = change
  return recordOf({ event_type: 'run_changed', run, settings, is_paused, stages, version, source_error }, by, now)
}

/** The record of the beginning of a cancellation, as JSON. */
export function cancelRunRecord(run: string, by: By, now: number): string {
  return recordOf({ event_type: 'run_cancelled', run }, by, now)
}

/** The record of a batch that a redrive of its members has opened again, as JSON. */
export function batchReopenedRecord(batch: string, count: number, by: By, now: number): string {
  return recordOf({ event_type: 'batch_reopened', batch, count }, by, now)
}

/** The record of a batch that takes no more members, as JSON. */
export function batchClosedRecord(batch: string, by: By, now: number): string {
  return recordOf({ event_type: 'batch_closed', batch }, by, now)
}

/** The record of reprocessed items, as JSON. */
export function reprocessRecord(
  { pipeline, run, stage, errorCode: error_code, as }: ReprocessFilter & { readonly as: string | undefined },
  count: number,
  reopened: readonly string[],
  by: By,
  now: number,
): string {
  const act = { event_type: 'items_reprocessed', pipeline, run, stage, error_code, as, count, reopened } as const
  return recordOf(act, by, now)
}

/** The record of an edited payload, as JSON. */
export function editRecord(task: string, by: By, now: number): string {
  return recordOf({ event_type: 'task_edited', task }, by, now)
}

/** The record of something that happened to a schedule, as JSON. */
export function scheduleRecord(act: ScheduleAct, by: By, now: number): string {
  return recordOf(act, by, now)
}

/** The record of a mark of a failure group, as JSON. */
export function markRecord(group: string, mark: GroupMark, by: By, now: number): string {
  const act = { event_type: 'group_marked', group, state: mark.state } as const
  if (mark.state === 'fixed') return recordOf({ ...act, release: mark.release }, by, now)
  if (mark.state !== 'ignored' || mark.until === undefined) return recordOf(act, by, now)
  const { at, count, perHour: per_hour } = mark.until
  const until = {
    ...(at !== undefined && { at: new Date(at).toISOString() }),
    ...(count !== undefined && { count }),
    ...(per_hour !== undefined && { per_hour }),
  }
  return recordOf({ ...act, until }, by, now)
}

/** The record of a rule that was added or removed, as JSON. */
export function ruleRecord(act: 'added' | 'removed', { id, kind, pattern }: GroupRule, by: By, now: number): string {
  return recordOf({ event_type: `group_rule_${act}`, rule: id, kind, pattern }, by, now)
}

/** The record of an act on an operation, as JSON. */
export function operationRecordOf(
  event_type: 'operation_created' | 'operation_stopped' | 'operation_continued' | 'operation_undone',
  { id: operation, act, set, settings: { patch, ...others }, moved, undone }: OperationState,
  by: By,
  now: number,
): string {
  const settings = { ...others, ...(patch !== undefined && { patched: patchedFields(objectText(patch)) }) }
  return recordOf({ event_type, operation, act, set: recordedSet(set), settings, moved, undone }, by, now)
}

/** The first hundred fields that a patch changes, such as `card.cvc`. */
function patchedFields(patch: string): readonly string[] {
  const fieldsOf = (json: string): string[] =>
    Array.from(membersOf(json) ?? []).flatMap(([name, value]) => {
      const inner = fieldsOf(value)
      return inner.length === 0 ? [name] : inner.map(field => `${name}.${field}`)
    })
  return fieldsOf(patch).slice(0, MAX_IDS)
}

function recordedSet(set: OperationSet): RecordedSet {
  if ('ids' in set) return recordedIds(set.ids)
  if ('schedule' in set) return { ...set, from: new Date(set.from).toISOString(), to: new Date(set.to).toISOString() }
  return 'until' in set ? { ...set, until: new Date(set.until).toISOString() } : set
}

/** The record of an operation that is done, or that its failures have stopped, as JSON. */
export function operationEnded(state: OperationState, tally: OperationTally, now: number): string {
  const { id: operation, act, status, reason, moved, by } = state
  return recordOf({ event_type: 'operation_ended', operation, act, status, reason, moved, tally }, by, now)
}

function recordOf(act: OperatorAct, { who, why }: By, now: number): string {
  const record: OperatorRecord = { ...act, who, why: why ?? null, timestamp: new Date(now).toISOString() }
  return JSON.stringify(record)
}

/** Only the fields that select: callers may pass whole lane records. */
function named({ kind, category, key }: LaneSelection): LaneSelection {
  return { kind, category, key }
}
