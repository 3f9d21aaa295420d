import { isDeepStrictEqual } from 'node:util'
import { canonicalJson, OptionError } from '../../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../../policy/internal.js'
import type { LaneLimits, LaneSelection, Rate, SharedLimits } from '../contract/lane.js'
import type { Cost } from '../contract/task.js'
import { checkName } from './check.js'
import { checkConcurrency } from './lane-limits.js'
import { ownValue } from './own-value.js'

/**
 * The arithmetic of shared limits: when a task may start, and what its start, its answer or its refusal changes. Pure.
 * PostgreSQL has in SQL what a claim needs, and what a hold sets at once; the conformance suite holds for all three stores.
 *
 * A task starts when the limit is not held, each bucket has `min(cost, burst)`, and the learned pace allows it.
 *
 * **The pace.** A refusal holds all lanes until it is over, and teaches a rate: how much the service accepted lately. From
 * the end of the hold on, t seconds ago, the pace is
 *
 *     rate × (1 + 0.1 × (t / step − 1)³)
 *
 * so it begins at 0.9 of the rate, comes back to it after one step, stays near it for long, and then grows ever faster, to
 * find out whether the service allows more by now. The first refusal teaches little, so its step is one second; that of
 * later ones is ten. After a minute without a refusal the pace ends, whatever it is. Attempts that began before the last
 * hold was over teach nothing: they are the same refusal. Nor does a refusal with nothing accepted since the one before:
 * the service is down then, which says nothing about the pace that it allows afterwards. A service that refuses less than
 * one attempt in a hundred does so now and then, whatever the pace: such a refusal lowers the rate no further.
 */

/** The state of a shared limit. Times are milliseconds. JSON. */
export interface SharedState {
  readonly heldUntil: number
  /** The id of the task whose refusal holds it until then. */
  readonly heldBy?: string
  /** How much each bucket had at a time. */
  readonly buckets: Readonly<Record<string, Level>>
  /** Answers by the second: those in the second `at`, and in the one before it. */
  readonly answers: { readonly at: number; readonly count: number; readonly before: number }
  /** Absent until the first refusal. */
  readonly pace?: Pace
  /** Refusals that `learned` has yet to see. Only PostgreSQL keeps them, from a settlement until after its commit. */
  readonly refusals?: readonly Refusal[]
  /** Until when it was held before those. */
  readonly heldBefore?: number
}

/** A refused attempt at a task. */
interface Refusal {
  readonly task: string
  readonly began: number
  readonly until: number
  readonly at: number
}

/** How many attempts were accepted in a second. */
export type Answers = readonly [second: number, count: number]

interface Level {
  readonly tokens: number
  readonly at: number
}

interface Pace extends Level {
  /** Starts per second that the service is known to accept. */
  readonly rate: number
  /** Seconds from the end of the hold until the pace has come back to the rate. */
  readonly step: number
  readonly isFirst: boolean
  /** When the last refusal came that was not the same as the one before, and how many answers came since then. */
  readonly cutAt: number
  readonly accepted: number
  /** How many attempts were refused then. */
  readonly refused: number
}

const FIRST_STEP = 1
const STEP = 10
/** The pace ends after this many seconds without a refusal: it is mostly ten times the rate by then. */
const PACE_SECONDS = 55
/** The pace lets this many seconds' worth start at once. */
const PACE_BURST = 0.1
/** With fewer answers, the last second says nothing about the rate. */
const MIN_ANSWERS = 5
/** Refusals are no sign of a pace that is too high if more than this many answers come with each. */
const SPORADIC = 100
/** No cut takes away more than this. */
const LARGEST_CUT = 0.5
/** No refusal teaches a rate below this. */
const MIN_RATE = 0.5

/** Rates and bursts beyond these are mistakes, and would overflow in a database. */
const [MIN_AMOUNT, MAX_AMOUNT] = [1e-9, 1e12]

/** The debt of a bucket is at most what it gets in this many seconds. */
const MAX_DEBT_SECONDS = 3600
/** Nothing waits longer for a bucket or the pace. PostgreSQL has it too, where larger numbers would not be times. */
const MAX_WAIT_MS = 1e12
/** A state that is further ahead than this was kept before the clock was set back. */
const CLOCK_TOLERANCE_MS = 1000

/** Times this large lose fractions. */
const HAIR = 1e-9

export const NEW_STATE: SharedState = { heldUntil: 0, buckets: {}, answers: { at: 0, count: 0, before: 0 } }

/** The limits of quotas that nobody has limited: a rate limit still holds all lanes of a quota. */
export const NO_QUOTA_LIMITS: SharedLimits = { isShared: true, isPerQuota: true }

/** Whether limits are shared by the lanes that they are given to. */
export function isShared(limits: LaneLimits | SharedLimits): limits is SharedLimits {
  return 'isShared' in limits && limits.isShared === true
}

const FIELDS: KnownOptions<SharedLimits> = {
  isShared: '',
  isPerQuota: '',
  concurrency: '',
  rates: 'object',
  isDeclared: '',
}
const RATE_FIELDS: KnownOptions<Rate> = { perSecond: '', burst: '' }

/** Shared limits as a store keeps them. Invalid ones are an `OptionError`, and so is a selection by key. */
export function checkedShared({ category, key }: LaneSelection, limits: SharedLimits): SharedLimits {
  checkOptions('A shared limit', limits, FIELDS)
  const { isPerQuota, concurrency, rates = {} } = limits
  if (isPerQuota && category !== undefined)
    throw new OptionError('category', `Limits per quota hold for a whole kind, got the category ${quoted(category)}.`)
  if (key !== undefined)
    throw new OptionError('key', `Shared limits select by kind and category, not by key, got ${quoted(key)}.`)
  checkConcurrency(concurrency)
  const checked = Object.entries(rates).map(([name, rate]) => [name, checkedRate(name, rate)] as const)
  return {
    isShared: true,
    ...(isPerQuota && { isPerQuota }),
    ...(concurrency !== undefined && { concurrency }),
    ...(checked.length > 0 && { rates: Object.fromEntries(checked) }),
  }
}

/** Limits that code declares, and the lanes that they are about, as text. */
export interface Declaration {
  readonly lanes: string
  readonly limits: string
}

/** Limits that code declares, as text that two equal declarations share; `undefined` if these are an operator's. */
export function declarationOf(
  { kind, category }: LaneSelection,
  limits: LaneLimits | SharedLimits,
): Declaration | undefined {
  if (!(isShared(limits) && limits.isDeclared === true)) return undefined
  const { isPerQuota } = limits
  return {
    lanes: JSON.stringify({ kind, category, ...(isPerQuota && { isPerQuota }) }),
    limits: canonicalJson(checkedShared({ kind }, limits)),
  }
}

/** The earliest time at which a task may start as far as rates and holds go. It may start now if that is not later. */
export function opensAt(limits: SharedLimits, kept: SharedState, cost: Cost | undefined, now: number): number {
  const state = presentState(kept, now)
  let opening = Math.max(now, state.heldUntil)
  if (isUnmetered(limits, state)) return opening
  for (const [name, rate] of ratesOf(limits)) {
    const missing = Math.min(costOf(cost, name), burstOf(rate)) - levelOf(state, name, rate, now)
    if (missing > HAIR) opening = Math.max(opening, now + waitMs(missing, rate.perSecond))
  }
  const pace = paceAt(state, opening)
  if (pace === undefined) return opening
  const missing = 1 - paceLevel(state, pace, opening)
  return missing > HAIR ? opening + waitMs(missing, pace) : opening
}

/** How many tasks of this cost may start now, as far as rates and holds go. */
export function startsNow(limits: SharedLimits, kept: SharedState, cost: Cost | undefined, now: number): number {
  const state = presentState(kept, now)
  if (state.heldUntil > now) return 0
  const starts = ratesOf(limits).map(([name, rate]) => {
    const each = costOf(cost, name)
    const spare = levelOf(state, name, rate, now) + HAIR - Math.min(each, burstOf(rate))
    return spare < 0 ? 0 : Math.floor(spare / each) + 1
  })
  const pace = paceAt(state, now)
  return Math.min(...starts, pace === undefined ? Infinity : Math.floor(paceLevel(state, pace, now) + HAIR))
}

/** How many tasks may start now under a quota with so many running, each at a cost of 1. PostgreSQL has it in `quota_room`. */
export function quotaRoom(limits: SharedLimits, state: SharedState, running: number, now: number): number {
  return Math.min((limits.concurrency ?? Infinity) - running, startsNow(limits, state, undefined, now))
}

/** The learned pace in starts per second; `undefined` if there is none. */
export function paceAt(state: SharedState, now: number): number | undefined {
  const { pace, heldUntil } = presentState(state, now)
  if (pace === undefined) return undefined
  const seconds = Math.max(0, now - heldUntil) / 1000
  if (seconds >= PACE_SECONDS) return undefined
  return pace.rate * (1 + 0.1 * (seconds / pace.step - 1) ** 3)
}

/** A task has started. A bucket that has less than its cost is left with a debt. */
export function afterStart(limits: SharedLimits, kept: SharedState, cost: Cost | undefined, now: number): SharedState {
  const state = presentState(kept, now)
  if (isUnmetered(limits, state)) return state
  const buckets = Object.fromEntries(
    ratesOf(limits).map(([name, rate]) => [
      name,
      { tokens: bounded(rate, levelOf(state, name, rate, now) - costOf(cost, name)), at: now },
    ]),
  )
  const pace = paceAt(state, now)
  if (state.pace === undefined || pace === undefined) return { ...state, buckets, pace: undefined }
  return { ...state, buckets, pace: { ...state.pace, tokens: paceLevel(state, pace, now) - 1, at: now } }
}

/** A task has ended, and the attempt took more or less than its cost. */
export function afterUse(
  limits: SharedLimits,
  kept: SharedState,
  cost: Cost | undefined,
  used: Cost,
  now: number,
): SharedState {
  const state = presentState(kept, now)
  const corrected = ratesOf(limits).flatMap(([name, rate]) => {
    const took = ownValue(used, name)
    if (took === undefined) return []
    const tokens = levelOf(state, name, rate, now) + costOf(cost, name) - took
    return [[name, { tokens: bounded(rate, tokens), at: now }] as const]
  })
  return corrected.length === 0 ? state : { ...state, buckets: { ...state.buckets, ...Object.fromEntries(corrected) } }
}

/** The service has accepted an attempt, or several. */
export function afterAnswer(state: SharedState, now: number, accepted = 1): SharedState {
  const { count, ...answers } = answersAt(state, now)
  const pace = state.pace && { ...state.pace, accepted: state.pace.accepted + accepted }
  return { ...state, answers: { ...answers, count: count + accepted }, pace }
}

/** The state that answers and refusals teach which were only noted so far. Answers are given in the order of their seconds. */
export function learned(kept: SharedState, answers: readonly Answers[]): SharedState {
  const { refusals = [], heldBefore = kept.heldUntil, ...rest } = kept
  const answered = answers.reduce<SharedState>(withAnswers, { ...rest, heldUntil: heldBefore })
  return refusals.reduce((state, { task, began, until, at }) => afterRefusal(state, task, began, until, at), answered)
}

/** Adds answers of a second, which may have been noted after later ones. */
function withAnswers(state: SharedState, [second, count]: Answers): SharedState {
  if (second >= state.answers.at) return afterAnswer(state, second * 1000, count)
  const { answers, pace } = state
  const before = answers.before + (second === answers.at - 1 ? count : 0)
  return { ...state, answers: { ...answers, before }, pace: pace && { ...pace, accepted: pace.accepted + count } }
}

/** The service has refused an attempt at a task that began then, until a time: all lanes are held, and the pace is cut. */
export function afterRefusal(kept: SharedState, task: string, began: number, until: number, now: number): SharedState {
  const before = presentState(kept, now)
  const state = until >= before.heldUntil ? { ...before, heldBy: task } : before
  const heldUntil = Math.max(state.heldUntil, until)
  const level = { tokens: 1, at: heldUntil }
  const isSame = began < state.heldUntil
  const again = state.pace && { ...state.pace, refused: state.pace.refused + 1, ...level }
  if (isSame) return { ...state, heldUntil, pace: again }

  const known = paceAt(state, now) === undefined ? undefined : again
  if (known?.accepted === 0) return { ...state, heldUntil, pace: { ...known, cutAt: now } }
  const isFirst = known === undefined
  const rate = isFirst ? Math.max(1, lastSecond(state, now)) : acceptedRate(state, now)
  const step = (isFirst ? FIRST_STEP : STEP) * slowness(rate)
  return { ...state, heldUntil, pace: { rate, step, isFirst, cutAt: now, accepted: 0, refused: 1, ...level } }
}

/**
 * Limits that are given again change nothing. Others end the hold and the pace, which is how an operator gets rid of them,
 * and a new bucket, or one with another rate, begins full.
 */
export function relimited(state: SharedState, before: SharedLimits, limits: SharedLimits): SharedState {
  if (isDeepStrictEqual(before, limits)) return state
  const kept = ratesOf(limits).filter(([name, { perSecond, burst }]) => {
    const old = ownValue(before.rates, name)
    return old?.perSecond === perSecond && old.burst === burst
  })
  const buckets = kept.flatMap(([name]) => {
    const level = ownValue(state.buckets, name)
    return level === undefined ? [] : [[name, level] as const]
  })
  return { ...NEW_STATE, answers: state.answers, buckets: Object.fromEntries(buckets) }
}

/** Whether a limit is as it would be made again: nothing holds it, no pace is learned, and its buckets are full. */
export function isAtRest(limits: SharedLimits, kept: SharedState, now: number): boolean {
  const state = presentState(kept, now)
  const isFree = state.heldUntil <= now && paceAt(state, now) === undefined
  return isFree && ratesOf(limits).every(([name, rate]) => levelOf(state, name, rate, now) >= burstOf(rate))
}

/** The state, unless the clock was set back since: its times would not pass for long, so it is forgotten. */
function presentState(state: SharedState, now: number): SharedState {
  const { pace, buckets, answers } = state
  const latest = Math.max(pace?.cutAt ?? 0, answers.at * 1000, ...Object.values(buckets).map(({ at }) => at))
  return latest > now + CLOCK_TOLERANCE_MS ? NEW_STATE : state
}

/** Whether nothing but a hold or the concurrency keeps a task from starting, as it mostly is. */
function isUnmetered({ rates }: SharedLimits, { pace }: SharedState): boolean {
  return rates === undefined && pace === undefined
}

/** The rate accepted since the last cut, or in the last second if that says more. */
function acceptedRate({ pace, ...state }: SharedState, now: number): number {
  if (pace === undefined) return 0
  const since = pace.accepted / Math.max(1, (now - pace.cutAt) / 1000)
  const last = lastSecond(state, now)
  const lately = pace.isFirst || last >= MIN_ANSWERS ? last : 0
  const isSporadic = pace.accepted > SPORADIC * pace.refused
  return Math.max(since, lately, (isSporadic ? 1 : LARGEST_CUT) * pace.rate, MIN_RATE)
}

/** Answers within the last second, as far as two whole seconds tell. */
function lastSecond(state: SharedState, now: number): number {
  const { count, before } = answersAt(state, now)
  return count + before * (1 - (now % 1000) / 1000)
}

function answersAt({ answers }: SharedState, now: number): SharedState['answers'] {
  const at = Math.floor(now / 1000)
  if (at === answers.at) return answers
  return { at, count: 0, before: at === answers.at + 1 ? answers.count : 0 }
}

/** A pace of less than one start per second takes longer to learn. */
function slowness(rate: number): number {
  return Math.max(1, 1 / rate)
}

function paceLevel({ pace }: SharedState, perSecond: number, now: number): number {
  if (pace === undefined) return Infinity
  return Math.min(Math.max(1, perSecond * PACE_BURST), pace.tokens + (Math.max(0, now - pace.at) * perSecond) / 1000)
}

/** How much a bucket has. It begins full. */
function levelOf({ buckets }: SharedState, name: string, rate: Rate, now: number): number {
  const level = ownValue(buckets, name)
  if (level === undefined) return burstOf(rate)
  return Math.min(burstOf(rate), level.tokens + (Math.max(0, now - level.at) * rate.perSecond) / 1000)
}

/** Bounds the level of a bucket. */
function bounded(rate: Rate, tokens: number): number {
  return Math.max(-MAX_DEBT_SECONDS * rate.perSecond, Math.min(burstOf(rate), tokens))
}

/** The time until the missing amount has come in. */
function waitMs(missing: number, perSecond: number): number {
  return Math.ceil(Math.min((missing * 1000) / perSecond, MAX_WAIT_MS) - HAIR)
}

function burstOf({ perSecond, burst = Math.max(1, perSecond) }: Rate): number {
  return burst
}

function costOf(cost: Cost | undefined, name: string): number {
  return ownValue(cost, name) ?? 1
}

function ratesOf({ rates }: SharedLimits): readonly (readonly [string, Rate])[] {
  return rates === undefined ? [] : Object.entries(rates)
}

function checkedRate(name: string, rate: Rate): Rate {
  checkName('rates', name)
  checkOptions(`'rates.${name}'`, rate, RATE_FIELDS)
  const { perSecond, burst } = rate
  checkAmount(name, 'perSecond', perSecond)
  if (burst !== undefined) checkAmount(name, 'burst', burst)
  return { perSecond, ...(burst !== undefined && { burst }) }
}

function checkAmount(name: string, field: 'perSecond' | 'burst', amount: number): void {
  if (amount >= MIN_AMOUNT && amount <= MAX_AMOUNT) return
  const range = `a number from ${MIN_AMOUNT} to ${MAX_AMOUNT}`
  throw new OptionError(field, `'rates.${name}.${field}' must be ${range}, got ${quoted(amount)}.`)
}
