import { plainDelay, spread } from './backoff.js'
import { formatDuration } from './duration.js'
import { policy as parse } from './parse.js'
import type { Backoff, FailureMatch, Jitter, Policy, PolicyInput } from './policy.js'

/** However many attempts a policy has, no more of them are told one by one. */
const MAX_ROWS = 100

/** The effect of a policy: each attempt's earliest, typical and latest start, and all of it in words. Times in milliseconds. */
export interface Explanation {
  /** The first hundred at most. */
  readonly attempts: readonly AttemptTimes[]
  /** The longest that the work can take; `undefined` when nothing limits how long an attempt runs. */
  readonly worstCaseMs: number | undefined
  /** A few sentences. */
  readonly words: string
  /** The attempts as a table in plain text. */
  readonly table: string
}

/** When an attempt starts, counted from the start of the first. Deferrals are not in it: a service sets those. */
export interface AttemptTimes {
  /** Its number, from 1. */
  readonly attempt: number
  /** Every attempt before it failed at once, and every delay was the shortest. */
  readonly earliestMs: number
  /** Every attempt before it failed at once, and every delay was the middle of its range. */
  readonly typicalMs: number
  /** Every attempt before it ran into its timeout (took no time, if it has none), and every delay was the longest. */
  readonly latestMs: number
}

interface Range {
  readonly low: number
  readonly middle: number
  readonly high: number
}

/** Says, in words and as a table, what a policy does. */
export function explain(input: PolicyInput): Explanation {
  const policy = parse(input)
  const attempts = attemptTimes(policy)
  return { attempts, worstCaseMs: worstCase(policy, attempts), words: words(policy, attempts), table: table(attempts) }
}

function attemptTimes(policy: Policy): AttemptTimes[] {
  const times: AttemptTimes[] = [{ attempt: 1, earliestMs: 0, typicalMs: 0, latestMs: 0 }]
  let previous: Range | undefined
  for (let attempt = 2; attempt <= Math.min(policy.attempts, MAX_ROWS); attempt++) {
    const before = times[attempt - 2] as AttemptTimes
    previous = delayRange(policy, attempt - 1, previous)
    const earliestMs = before.earliestMs + previous.low
    if (earliestMs >= (policy.ttl ?? Infinity)) break
    times.push({
      attempt,
      earliestMs,
      typicalMs: Math.min(before.typicalMs + previous.middle, lastStart(policy)),
      latestMs: Math.min(before.latestMs + (policy.timeout ?? 0) + previous.high, lastStart(policy)),
    })
  }
  return times
}

function delayRange({ backoff, jitter }: Policy, n: number, previous: Range | undefined): Range {
  if (backoff.kind === 'decorrelated') {
    const { base, max } = backoff
    const upTo = (last: number) => Math.min(max, Math.max(base, 3 * last))
    const { middle, high } = previous ?? { middle: base, high: base }
    return { low: base, middle: Math.round(Math.min(max, (base + upTo(middle)) / 2)), high: upTo(high) }
  }
  const [low, high] = spread(jitter, plainDelay(backoff, n))
  return { low: Math.round(low), middle: Math.round((low + high) / 2), high: Math.round(high) }
}

/** No attempt starts later. */
function lastStart({ ttl = Infinity }: Policy): number {
  return Math.max(0, ttl - 1)
}

function worstCase(policy: Policy, attempts: readonly AttemptTimes[]): number | undefined {
  const { timeout } = policy
  if (timeout === undefined) return undefined
  const { latestMs } = attempts.at(-1) as AttemptTimes
  const untold = attempts.length < MAX_ROWS ? 0 : policy.attempts - MAX_ROWS
  const longestDelay = longest(policy)
  return Math.min(latestMs + untold * (timeout + longestDelay), lastStart(policy)) + timeout
}

/** The longest delay after the attempts that are told one by one. */
function longest(policy: Policy): number {
  const { backoff } = policy
  const listed = backoff.kind === 'list' ? backoff.delays.length : 0
  const last = { low: Infinity, middle: Infinity, high: Infinity }
  let high = delayRange(policy, policy.attempts, last).high
  for (let n = MAX_ROWS; n < Math.min(listed, policy.attempts); n++)
    high = Math.max(high, delayRange(policy, n, last).high)
  return high
}

function words(policy: Policy, attempts: readonly AttemptTimes[]): string {
  const { attempts: max, deferrals, timeout, ttl, maxRetryAfter, retryOn, giveUpOn } = policy
  const total = worstCase(policy, attempts)
  const sentences = [
    max === 1
      ? 'One attempt, no retry.'
      : `Up to ${max} attempts, ${backoffWords(policy.backoff)}${jitterWords(policy.jitter)}.`,
    timeout !== undefined && `Each attempt may run for ${formatDuration(timeout)}.`,
    ttl !== undefined &&
      (ttl === 0
        ? 'No retry starts: the time to live is 0.'
        : `No attempt starts ${formatDuration(ttl)} or more after the first.`),
    `A rate limit that says how long to wait is obeyed, up to ${formatDuration(maxRetryAfter)}, and ${deferrals === 0 ? 'counts as an attempt.' : `up to ${deferrals} times costs no attempt.`}`,
    `Retried: ${retryWords(retryOn)}.`,
    giveUpOn.length > 0 && `Given up on at once: ${list(giveUpOn)}.`,
    total === undefined
      ? 'Nothing limits how long an attempt runs, so there is no worst case.'
      : `Worst case: ${formatDuration(total)} in all${max + deferrals > 1 ? ', unless a rate limit asks for longer waits' : ''}.`,
  ]
  return sentences.filter(Boolean).join(' ')
}

function backoffWords(backoff: Backoff): string {
  switch (backoff.kind) {
    case 'none':
      return 'without a delay'
    case 'fixed':
      return `${formatDuration(backoff.base)} apart`
    case 'linear':
      return `each ${formatDuration(backoff.base)} later than the one before, at most ${formatDuration(backoff.max)}`
    case 'exponential':
      return `the first retry after ${formatDuration(backoff.base)}, then ${backoff.factor} times as long each time, at most ${formatDuration(backoff.max)}`
    case 'list':
      return `after ${backoff.delays.map(formatDuration).join(', ')}, and the last of these from then on`
    case 'decorrelated':
      return `each after a random time between ${formatDuration(backoff.base)} and three times the last, at most ${formatDuration(backoff.max)}`
  }
}

function jitterWords(jitter: Jitter): string {
  switch (jitter.kind) {
    case 'none':
      return ''
    case 'full':
      return ', each delay spread evenly from 0'
    case 'equal':
      return ', each delay spread over its upper half'
    case 'proportional':
      return `, each delay ±${Number((jitter.ratio * 100).toFixed(2))} %`
  }
}

function retryWords(retryOn: Policy['retryOn']): string {
  if (retryOn === undefined) return 'transient and unknown failures'
  if (retryOn === 'none') return 'nothing'
  return retryOn === 'all' || retryOn.length === 0 ? 'every failure' : `only ${list(retryOn)}`
}

function list(entries: readonly FailureMatch[]): string {
  return entries.join(', ')
}

function table(attempts: readonly AttemptTimes[]): string {
  const rows = attempts.map(({ attempt, earliestMs, typicalMs, latestMs }) => [
    String(attempt),
    ...[earliestMs, typicalMs, latestMs].map(formatDuration),
  ])
  const cells = [['attempt', 'earliest', 'typical', 'latest'], ...rows]
  const widths = [0, 1, 2, 3].map(column => Math.max(...cells.map(row => row[column]?.length ?? 0)))
  return cells.map(row => row.map((cell, column) => cell.padStart(widths[column] ?? 0)).join('  ')).join('\n')
}
