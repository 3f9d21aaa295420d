import {
  advance,
  canonicalJson,
  type Decision,
  decide,
  decideLoss,
  type History,
  hashJson,
  type Policy,
  type PolicyInput,
  policy as parsePolicy,
  type Verdict,
} from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { LedgerRow, Store, TaskRecord } from '../store/index.js'
import { contractOf, type StepAttempt, type StepRow, type StoreContract } from '../store/internal.js'
import { pagesOf } from './pages.js'
import { recordProblems } from './record-problems.js'
import { decisionsOnRecord } from './step-decisions.js'
import { damagedSteps, damagedTexts, jsonOf, readStep } from './stored-json.js'

/** A recorded decision that differs from what the kernel decides when asked again. */
export interface Discrepancy {
  /** The id of the task. */
  readonly taskId: string
  /** The row of its ledger; of the ledger of its step, if that decided. */
  readonly sequence: number
  /** The step of the task that decided. */
  readonly step?: string
  /** The decision on record. */
  readonly recorded: string
  /** The decision that the kernel makes now. */
  readonly recomputed: string
}

/** A record that contradicts itself or cannot be read: it was damaged outside of Redrive. */
export interface RecordProblem {
  /** The id of the task; `undefined` if it is not the record of a task. */
  readonly taskId: string | undefined
  /** The problem, in words. */
  readonly problem: string
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
  /** Records that are damaged. */
  readonly problems: readonly RecordProblem[]
}

/** A row of the ledger with all that a decision was made from. */
type DecisionRow = LedgerRow & Required<Pick<LedgerRow, 'verdict' | 'policy' | 'random'>>

type LedgerSource = Pick<StoreContract, 'get' | 'ledger' | 'ledgers'>

/** Options of a verification. */
export interface VerifyOptions {
  /** Ends the reading: the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal
  /** Called after each page with the number of tasks read so far. */
  readonly onProgress?: (tasks: number) => void
}

/**
 * Recomputes every recorded decision of a store from its ledger, and reports those that differ. Reads every record of a
 * task, a step, a policy, an audit event, a schedule, a bulk act and so on, and reports those that are damaged.
 */
export async function verify(store: Store, { signal, onProgress }: VerifyOptions = {}): Promise<Verification> {
  const contract = contractOf(store)
  let [tasks, decisions, unknown] = [0, 0, 0]
  const discrepancies: Discrepancy[] = []
  const problems: RecordProblem[] = []
  const policies = new Map<string, Policy | undefined>()
  const policyOf = async (hash: string) => {
    if (!policies.has(hash)) {
      const stored = await contract.policies.get(hash)
      const policy = stored === undefined ? undefined : readPolicy(stored, hash)
      policies.set(hash, policy)
      if (stored !== undefined && policy === undefined)
        problems.push({
          taskId: undefined,
          problem: `the policy ${hash} is not the one that was stored under this hash`,
        })
    }
    return policies.get(hash)
  }
  const check = async (task: TaskRecord, ledger: readonly LedgerRow[], steps: readonly StepRow[]) => {
    for (const { row, history, latestStart } of withHistory(task, ledger)) {
      // A step decided, as its own ledger has it.
      if (!isDecisionOnRecord(row) || row.notes?.step !== undefined) continue
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
    if (ledger.some(({ notes }) => notes?.step !== undefined)) await checkSteps(task.id, steps)
  }
  /** The steps of a task that one of them has put back to waiting, or killed. */
  const checkSteps = async (taskId: string, rows: readonly StepRow[]) => {
    const steps = rows.flatMap(row => readStep(row) ?? [])
    for (const { step, sequence, entry, history, reason } of steps.flatMap(decisionsOnRecord)) {
      const policy = await policyOf(entry.policy)
      if (policy === undefined) {
        unknown++
        continue
      }
      decisions++
      const { verdict, random, endedAt: now } = entry
      const recomputed = decisionInWords(decide(policy, history, verdict, { now, random }))
      const recorded = inWords({ ...entry, reason })
      if (recorded !== recomputed) discrepancies.push({ taskId, step, sequence, recorded, recomputed })
    }
  }
  for await (const page of pagesOf(request => contract.list({}, request))) {
    signal?.throwIfAborted()
    const ledgers = await readLedgers(contract, page)
    const stepsOf = await contract.stepsOf(page.map(({ id }) => id))
    for (const [index, task] of page.entries()) {
      const ledger = ledgers[index]
      const steps = stepsOf[index] ?? []
      problems.push(...damagedSteps(steps).map(problem => ({ taskId: task.id, problem })))
      if (ledger !== undefined) await check(task, ledger, steps)
      const isSound = ledger !== undefined && problemsOf(task, ledger).length === 0
      if (!isSound)
        problems.push(...(await lastingProblems(contract, task)).map(problem => ({ taskId: task.id, problem })))
    }
    tasks += page.length
    onProgress?.(tasks)
  }
  for await (const page of pagesOf(request => contract.audit.page(request))) {
    signal?.throwIfAborted()
    const damaged = page.filter(record => jsonOf(record) === undefined)
    problems.push(
      ...damaged.map(record => ({ taskId: undefined, problem: `the audit record ${quoted(record)} is not JSON` })),
    )
  }
  for await (const page of pagesOf(request => contract.records(request))) {
    signal?.throwIfAborted()
    const damaged = page.filter(({ state }) => jsonOf(state) === undefined)
    problems.push(
      ...damaged.map(({ type, id }) => ({ taskId: undefined, problem: `the ${type} ${quoted(id)} is not JSON` })),
    )
  }
  return { tasks, decisions, unknown, discrepancies, problems }
}

/** The ledgers of tasks; `undefined` in the place of one that cannot be read. */
async function readLedgers(
  store: LedgerSource,
  tasks: readonly TaskRecord[],
): Promise<readonly (readonly LedgerRow[] | undefined)[]> {
  try {
    return await store.ledgers(tasks.map(({ id }) => id))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return Promise.all(tasks.map(({ id }) => readLedger(store, id)))
  }
}

async function readLedger(store: LedgerSource, id: string): Promise<readonly LedgerRow[] | undefined> {
  try {
    return await store.ledger(id)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** The problems of a record, read again until no settlement came between the task and its ledger. */
async function lastingProblems(store: LedgerSource, { id }: TaskRecord): Promise<readonly string[]> {
  for (let task = await store.get(id); task !== undefined; ) {
    const ledger = await readLedger(store, id)
    const after = await store.get(id)
    if (canonicalJson(after ?? null) === canonicalJson(task))
      return ledger === undefined ? ['a row of its ledger is not JSON'] : problemsOf(task, ledger)
    task = after
  }
  return []
}

function problemsOf(task: TaskRecord, ledger: readonly LedgerRow[]): string[] {
  return [...damagedTexts(task), ...recordProblems(task, ledger)]
}

/** A stored policy; `undefined` if its text is damaged. */
function readPolicy(stored: string, hash: string): Policy | undefined {
  const input = jsonOf(stored)
  return input === undefined || hashJson(input.value) !== hash ? undefined : parsePolicy(input.value as PolicyInput)
}

/** The decision of the kernel, asked again. */
export function recompute(
  policy: Policy,
  history: History,
  row: LedgerRow,
  verdict: Verdict,
  random: number,
): Decision {
  if (row.outcome !== 'lost')
    return decide(policy, history, verdict, { now: row.endedAt, random, delayMs: row.notes?.askedMs })
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
  for (const [index, row] of rows.entries()) {
    if (row.outcome === 'redriven') {
      history = { attempts: 0, deferrals: 0, losses: history.losses, startedAt: row.endedAt }
      latestStart = history.startedAt
      continue
    }
    latestStart = startAfter(latestStart, row, rows.slice(index))
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

/** With another time, the time to live of a task without an attempt begins then: no later than its next attempt. */
function startAfter(latest: number, { outcome }: LedgerRow, rows: readonly LedgerRow[]): number {
  if (outcome !== 'promoted' && outcome !== 'rescheduled') return latest
  return rows.find(({ attempt }) => attempt > 0)?.startedAt ?? latest
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

/** The decision of a row: of a task, or of a step. */
interface RecordedDecision {
  readonly outcome: LedgerRow['outcome'] | StepAttempt['outcome']
  readonly delayMs?: number | undefined
  readonly reason?: string | undefined
}

/** The row of a lost attempt holds the decision on it: a delay, or a reason to give up. */
function inWords({ outcome, delayMs, reason }: RecordedDecision): string {
  if (reason !== undefined) return `gave up: ${reason}`
  return outcome === 'deferred' ? `deferred for ${delayMs} ms` : `retry after ${delayMs} ms`
}

function decisionInWords(decision: Decision): string {
  if (decision.action === 'give_up') return `gave up: ${decision.reason}`
  return decision.action === 'defer' ? `deferred for ${decision.delayMs} ms` : `retry after ${decision.delayMs} ms`
}
