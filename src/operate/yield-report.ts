import { type Policy, type PolicyInput, policy } from '../policy/index.js'
import type { RetryYield, Store } from '../store/index.js'
import { binomialInterval, type Interval } from './binomial-interval.js'

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
  /** How many retries ended in a success or a failure. */
  readonly made: number
  /** How many of them succeeded. */
  readonly succeeded: number
  /** The share of retries that will succeed, with 95 % confidence. */
  readonly interval: Interval
}

/** A change of a policy that the ledger supports. */
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
  /** How many tasks went so far. */
  readonly tasks: number
  /** How many of them succeeded on one of these attempts. */
  readonly succeeded: number
  /** The share of tasks that such attempts would help, with 95 % confidence. */
  readonly interval: Interval
  /** How many attempts the change would have saved. */
  readonly saved: number
  /** The fields of the policy to change; the rest stays. Absent if the policy is not on record. */
  readonly patch?: PolicyInput
}

/** How much retries helped. */
export interface YieldReport {
  /** Since when failures were counted, as ISO time. */
  readonly since: string
  /** By kind, category, code and attempt. */
  readonly yields: readonly YieldView[]
  /** The changes to make, those that save most first. */
  readonly advice: readonly PolicyAdvice[]
}

/** Which retries to report on. */
export interface YieldOptions {
  /** Only this kind. */
  readonly kind?: string
  /** Count the failures of this long. Default: 30 days. */
  readonly periodMs?: number
}

const PERIOD_MS = 30 * 86_400_000

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
  store: Pick<Store, 'now' | 'yields' | 'policies'>,
  { kind, periodMs = PERIOD_MS }: YieldOptions = {},
): Promise<YieldReport> {
  const since = (await store.now()) - periodMs
  const rows = (await store.yields(since)).filter(row => kind === undefined || row.kind === kind)
  const advice: PolicyAdvice[] = []
  for (const lane of groupsBy(rows, ({ kind, category }) => JSON.stringify([kind, category]))) {
    advice.push(...adviceOn(lane, await lastPolicy(store, lane)))
  }
  return {
    since: new Date(since).toISOString(),
    yields: viewsOf(rows),
    advice: advice.sort((a, b) => b.saved - a.saved),
  }
}

/** Policies change: the counts of all of them are added up. */
function viewsOf(rows: readonly RetryYield[]): YieldView[] {
  return groupsBy(rows, ({ kind, category, code, attempt }) => JSON.stringify([kind, category, code, attempt]))
    .map(same => {
      const { kind, category, code, attempt } = same[0]
      const [made, succeeded] = [sum(same, 'made'), sum(same, 'succeeded')]
      return { kind, category, code, attempt, made, succeeded, interval: binomialInterval(succeeded, made) }
    })
    .sort(
      (a, b) =>
        compare(a.kind, b.kind) || compare(a.category, b.category) || compare(a.code, b.code) || a.attempt - b.attempt,
    )
}

/** First the codes on which no retry helps; then, of all others, the attempts that never help. */
function adviceOn(rows: Group<RetryYield>, last: Policy | undefined): PolicyAdvice[] {
  const { kind, category } = rows[0]
  const final = groupsBy(rows, ({ code }) => code).flatMap(same => {
    const { code } = same[0]
    const facts = factsFrom(2, same)
    return facts === undefined
      ? []
      : [{ kind, category, advice: 'final' as const, code, ...facts, ...finalPatch(last, code) }]
  })
  const others = rows.filter(({ code }) => final.every(one => one.code !== code))
  const fewest = attemptsOf(others).find(attempt => {
    const facts = factsFrom(attempt, others)
    return facts !== undefined && facts.succeeded === 0
  })
  const facts = fewest === undefined ? undefined : factsFrom(fewest, others)
  if (fewest === undefined || facts === undefined) return final
  return [...final, { kind, category, advice: 'attempts', ...facts, ...(last && { patch: { attempts: fewest - 1 } }) }]
}

/** The worth of the attempts from one on; `undefined` if they were worth something, or if too few are known to say. */
function factsFrom(fromAttempt: number, rows: readonly RetryYield[]) {
  const later = rows.filter(({ attempt }) => attempt >= fromAttempt)
  // A task makes each attempt once, so the attempt that most tasks made counts them. Its attempts are not independent.
  const tasks = Math.max(0, ...groupsBy(later, ({ attempt }) => String(attempt)).map(same => sum(same, 'made')))
  const succeeded = sum(later, 'succeeded')
  const interval = binomialInterval(Math.min(succeeded, tasks), tasks)
  if (interval.high > WORTHLESS) return undefined
  const toAttempt = Math.max(...attemptsOf(later))
  return { fromAttempt, toAttempt, tasks, succeeded, interval, saved: sum(later, 'made') }
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
async function lastPolicy({ policies }: Pick<Store, 'policies'>, rows: Group<RetryYield>): Promise<Policy | undefined> {
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

function sum(rows: readonly RetryYield[], field: 'made' | 'succeeded'): number {
  return rows.reduce((total, row) => total + row[field], 0)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
