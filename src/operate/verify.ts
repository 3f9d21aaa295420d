import {
  advance,
  type Decision,
  decide,
  decideLoss,
  type History,
  type Policy,
  policy as parsePolicy,
  type Verdict,
} from '../policy/index.js'
import type { LedgerRow, Store, TaskRecord } from '../store/index.js'
import { pagesOf } from './pages.js'

/** A recorded decision that differs from what the kernel decides when asked again. */
export interface Discrepancy {
  /** The id of the task. */
  readonly taskId: string
  /** The row of its ledger. */
  readonly sequence: number
  /** The decision on record. */
  readonly recorded: string
  /** The decision that the kernel makes now. */
  readonly recomputed: string
}

/** The result of a verification. */
export interface Verification {
  /** How many tasks were read. */
  readonly tasks: number
  /** How many decisions were recomputed. */
  readonly decisions: number
  /** Decisions that cannot be recomputed, because the store does not have their policy. */
  readonly unknown: number
  /** Decisions that came out differently. */
  readonly discrepancies: readonly Discrepancy[]
}

/** A row of the ledger with all that a decision was made from. */
type DecisionRow = LedgerRow & Required<Pick<LedgerRow, 'verdict' | 'policy' | 'random'>>

type LedgerSource = Pick<Store, 'list' | 'ledgers' | 'policies'>

/** Options of a verification. */
export interface VerifyOptions {
  /** Ends the reading: the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal
  /** Called after each page with the number of tasks read so far. */
  readonly onProgress?: (tasks: number) => void
}

/** Recomputes every recorded decision of a store from its ledger, and reports those that differ. */
export async function verify(store: LedgerSource, { signal, onProgress }: VerifyOptions = {}): Promise<Verification> {
  const policies = new Map<string, Policy | undefined>()
  const policyOf = async (hash: string) => {
    if (!policies.has(hash)) {
      const stored = await store.policies.get(hash)
      policies.set(hash, stored === undefined ? undefined : parsePolicy(JSON.parse(stored)))
    }
    return policies.get(hash)
  }
  let [tasks, decisions, unknown] = [0, 0, 0]
  const discrepancies: Discrepancy[] = []
  const check = async (task: TaskRecord, ledger: readonly LedgerRow[]) => {
    for (const { row, history, latestStart } of withHistory(task, ledger)) {
      if (!isDecisionOnRecord(row)) continue
      const policy = await policyOf(row.policy)
      if (policy === undefined) {
        unknown++
        continue
      }
      decisions++
      const again = (history: History) => decisionInWords(recompute(policy, history, row, row.verdict, row.random))
      const [recorded, recomputed] = [inWords(row), again(history)]
      // The later its time to live began, the later it ends, so a decision that fits any start fits one of the two.
      if (recorded === recomputed || recorded === again({ ...history, startedAt: latestStart })) continue
      discrepancies.push({ taskId: task.id, sequence: row.sequence, recorded, recomputed })
    }
  }
  for await (const page of pagesOf(request => store.list({}, request))) {
    signal?.throwIfAborted()
    const ledgers = await store.ledgers(page.map(({ id }) => id))
    for (const [index, task] of page.entries()) await check(task, ledgers[index] ?? [])
    tasks += page.length
    onProgress?.(tasks)
  }
  return { tasks, decisions, unknown, discrepancies }
}

/** The decision of the kernel, asked again. */
export function recompute(
  policy: Policy,
  history: History,
  row: LedgerRow,
  verdict: Verdict,
  random: number,
): Decision {
  if (row.outcome !== 'lost') return decide(policy, history, verdict, { now: row.endedAt, random })
  // A loss is decided on by the next worker, and when is not on record. Where its time was over by then, any later time does.
  const isOver = row.reason !== undefined && row.reason !== 'losses_exhausted'
  return decideLoss(policy, history, isOver ? Infinity : row.endedAt)
}

/** A row of a ledger, with all that its decision depends on besides the policy. */
export interface RowWithHistory {
  readonly row: LedgerRow
  /** The history before it. */
  readonly history: History
  /** The latest time at which that history can have begun. */
  readonly latestStart: number
}

/**
 * Each row with the history before it. A redrive starts a new one, but for the losses; so does the next stage of an item.
 * The first start of a task that was redriven since is not on record. It lies between its submission and its first attempt,
 * since the task may have been delayed. A redrive that was undone has left no trace in the history.
 */
export function* withHistory(task: TaskRecord, ledger: readonly LedgerRow[]): Generator<RowWithHistory> {
  const rows = ledger.filter((_, index) => ledger[index + 1]?.outcome !== 'undone')
  const fresh = rows.findLast(({ outcome }) => outcome === 'redriven' || outcome === 'advanced')
  const startOf = (row: LedgerRow | undefined) => (row === fresh ? task.startedAt : (row?.endedAt ?? task.submittedAt))
  let history: History = { attempts: 0, deferrals: 0, startedAt: startOf(undefined) }
  let latestStart = fresh === undefined ? history.startedAt : (rows[0]?.startedAt ?? history.startedAt)
  for (const row of rows) {
    if (row.outcome === 'redriven') {
      history = { attempts: 0, deferrals: 0, losses: history.losses, startedAt: row.endedAt }
      latestStart = history.startedAt
      continue
    }
    yield { row, history: row.call === undefined ? history : { ...history, attempts: row.attempt - 1 }, latestStart }
    if (row.outcome === 'advanced') {
      history = { attempts: 0, deferrals: 0, startedAt: startOf(row) }
      latestStart = history.startedAt
      continue
    }
    if (row.outcome === 'lost') history = { ...history, losses: (history.losses ?? 0) + 1 }
    const decision = decisionOf(row)
    if (row.verdict !== undefined && decision !== undefined) history = advance(history, row.verdict, decision)
  }
}

/** A row shows no decision if the task was cancelled meanwhile, or if its dead letter went to another home. */
function isDecisionOnRecord(row: LedgerRow): row is DecisionRow {
  const { outcome, delayMs, reason } = row
  if (row.verdict === undefined || row.policy === undefined || row.random === undefined) return false
  if (outcome === 'lost') return delayMs !== undefined || reason !== undefined
  return outcome !== 'cancelled' && outcome !== 'skipped'
}

function decisionOf({ outcome, delayMs = 0, endedAt }: LedgerRow): Decision | undefined {
  if (outcome === 'deferred') return { action: 'defer', delayMs, at: endedAt + delayMs }
  return outcome === 'retry' ? { action: 'retry', delayMs, at: endedAt + delayMs } : undefined
}

/** The row of a lost attempt holds the decision on it: a delay, or a reason to give up. */
function inWords({ outcome, delayMs, reason }: LedgerRow): string {
  if (reason !== undefined) return `gave up: ${reason}`
  return outcome === 'deferred' ? `deferred for ${delayMs} ms` : `retry after ${delayMs} ms`
}

function decisionInWords(decision: Decision): string {
  if (decision.action === 'give_up') return `gave up: ${decision.reason}`
  return decision.action === 'defer' ? `deferred for ${decision.delayMs} ms` : `retry after ${decision.delayMs} ms`
}
