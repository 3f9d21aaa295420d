import { type Policy, type PolicyInput, policy } from '../policy/index.js'
import type { Store } from '../store/index.js'
import { contractOf, type StoreContract } from '../store/internal.js'
import { binomialInterval, type Interval } from './binomial-interval.js'
import { DAY_MS, type RetryYield, retryYields } from './retry-yields.js'

/** How often the retries of a kind helped, by the code of the failure before them and by the number of the attempt. */
export interface YieldView {
  /** The kind of the tasks. */
  readonly kind: string
  /** Their category: the stage of items. Empty if there is none. */
  readonly category: string
  /** The code of the failure before the retry, such as `http_502`. */
  readonly code: string
  /** The number of the attempt: 2 is the first retry. */
  readonly attempt: number
  /** How many tasks made this attempt and have its result. Each counts once, with its latest, however often it was redriven. */
  readonly made: number
  /** How many of them succeeded. */
  readonly succeeded: number
  /** How many of them were the last attempt of a dead task that has succeeded since, after a redrive. */
  readonly recovered: number
  /** The share of retries that will succeed, with 95 % confidence. */
  readonly interval: Interval
}

/** A change of a policy that the ledger suggests. */
export interface PolicyAdvice {
  /** The kind of the tasks. */
  readonly kind: string
  /** Their category: the stage of items. Empty if there is none. */
  readonly category: string
  /** `final`: give up on the code at once. `attempts`: make fewer attempts. */
  readonly advice: 'final' | 'attempts'
  /** The code to give up on. Absent where fewer attempts are advised. */
  readonly code?: string
  /** The first attempt that does not help. */
  readonly fromAttempt: number
  /** The last attempt that was made. */
  readonly toAttempt: number
  /** The number of days (UTC) on which these attempts were worthless. Days on which retries helped do not count. */
  readonly days: number
  /** How many tasks went so far. */
  readonly tasks: number
  /** How many of them succeeded on one of these attempts, or after a redrive. */
  readonly succeeded: number
  /** The share of tasks that would succeed so, with 95 % confidence. */
  readonly interval: Interval
  /** How many attempts the change would have saved. */
  readonly saved: number
  /** The fields of the policy to change; the rest stays. Absent if the policy is not on record, and in `doubtful`. */
  readonly patch?: PolicyInput
}

/** How much retries helped. */
export interface YieldReport {
  /** When the first failure that counts was recorded, as ISO time. Without failures, the start of the period. */
  readonly since: string
  /** By kind, category, code and attempt. */
  readonly yields: readonly YieldView[]
  /** The changes to make, those that save most first. */
  readonly advice: readonly PolicyAdvice[]
  /** Changes not to make yet: the retries failed on fewer than 3 days, which looks like an outage. */
  readonly doubtful: readonly PolicyAdvice[]
}

/** Which retries to report on. */
export interface YieldOptions {
  /** Only this kind. */
  readonly kind?: string
  /** Count the failures of this long. Default: 30 days. */
  readonly periodMs?: number
}

const PERIOD_MS = 30 * DAY_MS

/** During an outage every retry fails, so a change needs retries that failed on at least this many days. */
const MIN_DAYS = 3

/** Retries that help at most this share of tasks, with 95 % confidence, are not worth it: none of 72 says so. */
const WORTHLESS = 0.05

/**
 * Reports from the ledger how much retries helped: how many succeeded, by the code of the failure before them and by
 * the number of the attempt; and which policies make retries that never help.
 *
 * ```ts
 * const { advice } = await reportYields(store, { kind: 'charge' })
 * for (const { code, saved, patch } of advice) console.log(code, saved, patch) // http_422 1491 { giveUpOn: [422] }
 * ```
 */
export async function reportYields(
  store: Store,
  { kind, periodMs = PERIOD_MS }: YieldOptions = {},
): Promise<YieldReport> {
  const contract = contractOf(store)
  const from = (await contract.now()) - periodMs
  const rows = (await retryYields(contract, from)).filter(row => kind === undefined || row.kind === kind)
  const changes: PolicyAdvice[] = []
  for (const lane of groupsBy(rows, ({ kind, category }) => JSON.stringify([kind, category]))) {
    changes.push(...changesOf(lane, await lastPolicy(contract, lane)))
  }
  changes.sort((a, b) => b.saved - a.saved)
  const since = rows.length === 0 ? from : rows.reduce((first, row) => Math.min(first, row.firstAt), Infinity)
  return {
    since: new Date(since).toISOString(),
    yields: viewsOf(rows),
    advice: changes.filter(({ days }) => days >= MIN_DAYS),
    doubtful: changes.filter(({ days }) => days < MIN_DAYS),
  }
}

/** Adds up the counts of all days, and of all policies that followed each other. */
function viewsOf(rows: readonly RetryYield[]): YieldView[] {
  return groupsBy(rows, ({ kind, category, code, attempt }) => JSON.stringify([kind, category, code, attempt]))
    .map(same => {
      const { kind, category, code, attempt } = same[0]
      const [made, succeeded, recovered] = [sum(same, 'made'), sum(same, 'succeeded'), sum(same, 'recovered')]
      return { kind, category, code, attempt, made, succeeded, recovered, interval: binomialInterval(succeeded, made) }
    })
    .sort(
      (a, b) =>
        compare(a.kind, b.kind) || compare(a.category, b.category) || compare(a.code, b.code) || a.attempt - b.attempt,
    )
}

/** First the codes on which no retry helps; then, of all others, the attempts that never help. */
function changesOf(rows: Group<RetryYield>, last: Policy | undefined): PolicyAdvice[] {
  const final = groupsBy(rows, ({ code }) => code).flatMap(same => finalCode(same, last))
  return [...final, ...fewerAttempts(rows, final, last)]
}

function finalCode(rows: Group<RetryYield>, last: Policy | undefined): PolicyAdvice[] {
  const { kind, category, code } = rows[0]
  const facts = factsFrom(2, rows)
  if (facts === undefined) return []
  return [{ kind, category, advice: 'final', code, ...facts, ...(isLasting(rows) && finalPatch(last, code)) }]
}

/** Each code needs days of its own: the outage of one service says nothing about the failures of another. */
function fewerAttempts(
  rows: Group<RetryYield>,
  final: readonly PolicyAdvice[],
  last: Policy | undefined,
): PolicyAdvice[] {
  const { kind, category } = rows[0]
  const byCode = groupsBy(rows, ({ code }) => code)
  const isHelpless = ([{ code }]: Group<RetryYield>) => final.some(one => one.code === code)
  // Codes that may be an outage keep their retries for now, so their successes count here.
  const retried = byCode.filter(same => !isHelpless(same) || !isLasting(same)).flat()
  const first = attemptsOf(retried).find(from => helped(retried.filter(({ attempt }) => attempt >= from)) === 0)
  if (first === undefined) return []
  const later = groupsBy(
    retried.filter(({ attempt }) => attempt >= first),
    ({ code }) => code,
  )
  const change = { kind, category, advice: 'attempts' } as const
  const facts = factsFrom(first, later.filter(isLasting).flat())
  if (facts !== undefined) return [{ ...change, ...facts, ...(last && { patch: { attempts: first - 1 } }) }]
  const brief = factsFrom(first, later.filter(same => !isHelpless(same) && !isLasting(same)).flat())
  return brief === undefined || brief.days >= MIN_DAYS ? [] : [{ ...change, ...brief }]
}

/** The worth of the attempts from one on; `undefined` if they were worth something, or if too few are known to say. */
function factsFrom(fromAttempt: number, rows: readonly RetryYield[]) {
  const later = rows.filter(({ attempt }) => attempt >= fromAttempt)
  const tasks = tasksOf(later)
  const succeeded = Math.min(helped(later), tasks)
  const interval = binomialInterval(succeeded, tasks)
  if (interval.high > WORTHLESS) return undefined
  const toAttempt = Math.max(...attemptsOf(later))
  return { fromAttempt, toAttempt, days: daysOf(later), tasks, succeeded, interval, saved: sum(later, 'made') }
}

/** A task counts once for each attempt, so the attempt that most tasks made counts them. Its attempts are not independent. */
function tasksOf(rows: readonly RetryYield[]): number {
  return Math.max(0, ...groupsBy(rows, ({ attempt }) => String(attempt)).map(same => sum(same, 'made')))
}

/** The number of tasks that succeeded after all. A success after a redrive counts, since it shows that the failure passes. */
function helped(rows: readonly RetryYield[]): number {
  return sum(rows, 'succeeded') + sum(rows, 'recovered')
}

/** The number of days on which retries were worthless. All failures of a row are from one day. */
function daysOf(rows: readonly RetryYield[]): number {
  const days = groupsBy(rows, ({ lastAt }) => String(Math.floor(lastAt / DAY_MS)))
  return days.filter(same => helped(same) <= WORTHLESS * tasksOf(same)).length
}

function isLasting(rows: readonly RetryYield[]): boolean {
  return daysOf(rows) >= MIN_DAYS
}

/** Gives up on a code: where the policy names it among those to retry, it is left out there. */
function finalPatch(last: Policy | undefined, code: string): { readonly patch?: PolicyInput } {
  if (last === undefined) return {}
  const [, status] = /^http_(\d{3})$/.exec(code) ?? []
  const rule = status === undefined ? code : Number(status)
  const { retryOn, giveUpOn } = last
  if (typeof retryOn === 'object' && retryOn.includes(rule)) {
    return { patch: { retryOn: retryOn.filter(other => other !== rule) } }
  }
  return { patch: { giveUpOn: [...giveUpOn, rule] } }
}

/** The policy that made the latest of these retries. */
async function lastPolicy(
  { policies }: Pick<StoreContract, 'policies'>,
  rows: Group<RetryYield>,
): Promise<Policy | undefined> {
  const latest = rows.reduce((last, row) => (row.lastAt > last.lastAt ? row : last))
  const text = latest.policy === '' ? undefined : await policies.get(latest.policy)
  return text === undefined ? undefined : policy(JSON.parse(text) as PolicyInput)
}

type Group<T> = readonly [T, ...T[]]

function groupsBy<T>(rows: readonly T[], nameOf: (row: T) => string): Group<T>[] {
  const groups = new Map<string, [T, ...T[]]>()
  for (const row of rows) {
    const group = groups.get(nameOf(row))
    if (group === undefined) groups.set(nameOf(row), [row])
    else group.push(row)
  }
  return [...groups.values()]
}

function attemptsOf(rows: readonly RetryYield[]): number[] {
  return [...new Set(rows.map(({ attempt }) => attempt))].sort((a, b) => a - b)
}

function sum(rows: readonly RetryYield[], field: 'made' | 'succeeded' | 'recovered'): number {
  return rows.reduce((total, row) => total + row[field], 0)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
