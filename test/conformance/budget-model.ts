import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import type { BudgetRecord, Lane } from '../../src/store/index.js'
import type { BudgetScope, FailureBudget, GateChange, GateRecord, RetryAllowance } from '../../src/store/internal.js'

/** The settings of a budget with all their fields. */
export interface ModelBudgetSettings {
  readonly failures?: Required<FailureBudget> | undefined
  readonly retries?: RetryRules | undefined
}

type RetryRules = Required<Omit<RetryAllowance, 'dependency'>> & Pick<RetryAllowance, 'dependency'>

/** The word of an attempt to its budgets. */
type Answer = 'ok' | 'failed' | 'none'

/** An open gate within a claim: how many of its tasks may start yet, and when it is worth asking again if none may. */
export interface ModelGate {
  readonly scope: BudgetScope
  left: number
  nextLook: number
}

/** A budget as lists of what has happened, which every question searches. */
interface ModelBudget {
  readonly scope: BudgetScope
  settings: ModelBudgetSettings
  gate: GateRecord
  /** Attempts that count for the gate. */
  attempts: { readonly at: number; readonly isFailed: boolean }[]
  /** The tasks that the gate has let through since its hold was over. */
  probes: Record<Answer | 'started' | 'startedAt', number>
  /** When first attempts ended, and when retries were let through. */
  readonly firsts: number[]
  readonly passes: number[]
  /** When the floor had nothing, as the retries that it let through last have left it. */
  floor: { readonly at: number; readonly passedAt: number }
  /** When its retries got their present settings: the bound holds for windows from then on. */
  retriesSince: number
  /** Whether the settlements of the present call may open the gate, and whether they must. */
  mayOpen: boolean
  mustOpen: boolean
  /** Whether they may close it. */
  mayClose: boolean
}

/** Budgets count in steps of the store's clock: in finer ones if retries are counted in a short window. */
const STEP_MS = 10_000
const FINE_STEP_MS = 1000
const LONGEST_HOLD_MS = 600_000
/** A gate whose probe was never heard of again lets another one through after this time. */
const LOST_PROBE_MS = 60_000

/** Before a call. */
const UNDECIDED = { mayOpen: false, mustOpen: false, mayClose: false }

const NO_FLOOR = { at: 0, passedAt: 0 }

const CLOSED: GateRecord = { state: 'closed', since: undefined, until: undefined, holds: 0, cause: undefined }

/**
 * The simplest possible budgets. Stores judge a gate after each settlement or after each call, so the model does not
 * predict when it opens: it checks that the gate could, or could not but, and then follows it.
 */
export class BudgetModel {
  readonly #budgets = new Map<string, ModelBudget>()

  get isEmpty(): boolean {
    return this.#budgets.size === 0
  }

  set(scope: BudgetScope, settings: ModelBudgetSettings, now: number): void {
    const known = this.#budgets.get(nameOf(scope))
    // Copied: generated objects may have no prototype, and that is no difference.
    const failuresOf = ({ failures }: ModelBudgetSettings) => ({ ...failures })
    const isSame = known !== undefined && isDeepStrictEqual(failuresOf(known.settings), failuresOf(settings))
    const { firsts = [], passes = [], floor = NO_FLOOR, retriesSince = now } = known ?? {}
    const kept = { firsts, passes, floor, retriesSince, settings: known?.settings ?? {}, ...UNDECIDED }
    const fresh = { gate: CLOSED, attempts: [], probes: noProbes() }
    const budget: ModelBudget = { ...(isSame ? known : { ...fresh, ...kept }), scope }
    this.#budgets.set(nameOf(scope), budget)
    budget.settings = { ...budget.settings, failures: settings.failures }
    setRetries(budget, settings.retries, now)
    for (const other of this.#budgets.values()) {
      const { dependency } = other.settings.retries ?? {}
      if (dependency !== undefined && dependency === settings.retries?.dependency)
        setRetries(other, settings.retries, now)
    }
  }

  settingsOf(scope: BudgetScope): ModelBudgetSettings | undefined {
    return this.#budgets.get(nameOf(scope))?.settings
  }

  lift(scope: BudgetScope): boolean {
    return this.#budgets.delete(nameOf(scope))
  }

  /** Closes a gate by hand. Returns whether it was open. */
  close(scope: BudgetScope): boolean {
    const budget = this.#budgets.get(nameOf(scope))
    if (budget === undefined || budget.gate.state === 'closed') return false
    Object.assign(budget, { gate: CLOSED, attempts: [], probes: noProbes() })
    return true
  }

  /** The name of the retry budget of a lane: that of its category, or else that of its kind. */
  retryBudgetOf(lane: Lane): string | undefined {
    const covering = this.#covering(lane).filter(({ settings }) => settings.retries !== undefined)
    const budget = covering.find(({ scope }) => scope.category !== undefined) ?? covering[0]
    return budget && nameOf(budget.scope)
  }

  /** Counts the end of a run that began then. */
  ended(lane: Lane, answer: Answer, isFirst: boolean, began: number, now: number): void {
    const earning = isFirst ? this.retryBudgetOf(lane) : undefined
    for (const budget of this.#covering(lane)) {
      if (nameOf(budget.scope) === earning) budget.firsts.push(now)
      if (budget.settings.failures === undefined) continue
      const isHalfOpen = stateOf(budget.gate, now) === 'half_open'
      if (isHalfOpen && began >= (budget.gate.until ?? Infinity)) budget.probes[answer]++
      if (answer !== 'none') budget.attempts.push({ at: now, isFailed: answer === 'failed' })
      const isTooMuch = isExceeded(budget, now)
      budget.mayOpen ||= isTooMuch
      budget.mustOpen ||= isTooMuch && (answer === 'failed' || isHalfOpen)
      budget.mayClose ||= isHalfOpen && isProven(budget, now)
    }
  }

  /** Whether a gate of a lane is open or half open, or may have been opened by the present call. */
  isGated(lane: Lane): boolean | 'perhaps' {
    const budgets = this.#covering(lane)
    if (budgets.some(({ gate, mayClose }) => gate.state !== 'closed' && !mayClose)) return true
    return budgets.some(({ mayOpen, mayClose }) => mayOpen || mayClose) ? 'perhaps' : false
  }

  /** The gates that a claim meets. */
  gates(now: number, isIdle: (scope: BudgetScope) => boolean): ModelGate[] {
    return [...this.#budgets.values()].flatMap(({ scope, gate, probes }) => {
      const state = stateOf(gate, now)
      if (state === 'closed') return []
      const { until = now } = gate
      if (state === 'open') return [{ scope, left: 0, nextLook: until }]
      const lostAt = Math.max(until, probes.startedAt) + LOST_PROBE_MS
      const { ok, failed, none, started } = probes
      const unanswered = Math.min(none, Math.max(0, started - ok - failed))
      const left = 1 + 2 * ok + failed + unanswered - started
      const isLost = left <= 0 && now >= lostAt && isIdle(scope)
      return [{ scope, left: isLost ? 1 : left, nextLook: lostAt }]
    })
  }

  /** Notes that a claim, which has met these gates, has started a task. */
  started(lane: Lane, gates: readonly ModelGate[], now: number): void {
    for (const gate of gates.filter(({ scope }) => isCovering(scope, lane))) {
      gate.left--
      gate.nextLook = now + LOST_PROBE_MS
    }
    for (const { gate, probes } of this.#covering(lane)) {
      if (gate.state === 'closed') continue
      assert.equal(stateOf(gate, now), 'half_open', 'a task starts behind an open gate')
      probes.started++
      probes.startedAt = now
    }
  }

  /** The budget that stands for all that share an allowance with this one. */
  allowanceOf(name: string): string {
    const dependency = this.#budgets.get(name)?.settings.retries?.dependency
    const isSharing = ([other, { settings }]: [string, ModelBudget]) =>
      dependency === undefined ? other === name : settings.retries?.dependency === dependency
    return [...this.#budgets].find(isSharing)?.[0] ?? name
  }

  /** Lets a retry of each of these budgets through, which must be within their allowance at every moment. */
  pass(names: readonly string[], now: number): void {
    const [name = ''] = names
    assert.ok(names.length <= this.retriesLeft(name, now), `${name} let ${names.length} through`)
    const { settings, firsts, retriesSince, floorAt } = this.#together(name, now)
    assert.ok(settings.retries !== undefined, `${name} lets retries through and is no budget`)
    const { share, windowMs, floor } = settings.retries
    const { burst, eachMs } = floorOf(settings.retries)
    const nothingAt = Math.max(floorAt, now - burst * eachMs) + names.length * eachMs
    for (const one of names) {
      const budget = this.#budgets.get(one)
      budget?.passes.push(now)
      if (budget !== undefined) budget.floor = { at: Math.min(nothingAt, now + windowMs), passedAt: now }
    }
    const within = (times: readonly number[]) => times.filter(at => at > now - windowMs).length
    const most = Math.max(share * within(firsts), (floor * windowMs) / 1000)
    // A new allowance begins afresh: retries of the same millisecond may be those of the one before.
    const passed = within(this.#together(name, now).passes.filter(at => at > retriesSince))
    assert.ok(passed <= most + 1e-9, `${name} let ${passed} through in a window`)
  }

  /** How many retries a budget, and those that share its allowance, let through now. */
  retriesLeft(name: string, now: number): number {
    const budget = this.#together(name, now)
    if (budget.settings.retries === undefined) return 0
    const { first, retried } = retryFigures(budget, budget.settings.retries, now)
    const { burst, eachMs } = floorOf(budget.settings.retries)
    const saved = Math.min(burst, (now - budget.floorAt + 0.001) / eachMs)
    return Math.max(0, Math.floor(Math.max(budget.settings.retries.share * first - retried + 1e-9, saved)))
  }

  /** When a claim should ask for retries again that a budget holds. */
  nextAsk(name: string, now: number): number {
    const { settings, floorAt } = this.#together(name, now)
    if (settings.retries === undefined) return Infinity
    const { burst, eachMs } = floorOf(settings.retries)
    const some = Math.ceil(burst / 2) * eachMs
    const at = Math.ceil(floorAt + some - 0.001)
    return Math.min(at > now ? at : Math.ceil(now + some), stepOf(now, STEP_MS) + STEP_MS)
  }

  /**
   * Compares with the budgets as the store lists them, and follows the gates, of which it has told those that changed.
   * `heldBy` counts the retries of a budget.
   */
  follow(
    records: readonly BudgetRecord[],
    told: readonly GateChange[],
    now: number,
    heldBy: (name: string) => number,
  ): void {
    const names = [...this.#budgets.keys()].sort()
    assert.deepEqual(records.map(nameOf).sort(), names, 'the budgets that there are')
    const opened: string[] = []
    const closed: string[] = []
    for (const record of records) {
      const name = nameOf(record)
      const budget = this.#budgets.get(name)
      if (budget === undefined) continue
      if (followClosing(budget, record, now)) closed.push(name)
      else if (followGate(budget, record.gate, name, now)) opened.push(name)
      const recent = recentOf(budget, now)
      assert.deepEqual(record.recent, recent, `recent attempts of ${name}`)
      const { retries } = budget.settings
      if (retries === undefined) assert.equal(record.retries, undefined)
      else {
        const figures = { ...retryFigures(this.#together(name, now), retries, now), held: heldBy(name) }
        const { nextAt, dependency, ...shown } = record.retries ?? {}
        const { dependency: expected, ...settings } = retries
        assert.deepEqual(shown, { ...settings, ...figures }, `the retries of ${name}`)
        assert.equal(dependency, expected, `the dependency of ${name}`)
        const isSome = this.retriesLeft(name, now) > 0
        assert.equal(nextAt === undefined, isSome, `the next retries of ${name} at ${nextAt}`)
      }
    }
    const toldOf = (isClosed: boolean) => told.filter(({ gate }) => (gate.state === 'closed') === isClosed).map(nameOf)
    assert.deepEqual(toldOf(false).sort(), opened.sort(), 'the gates that are said to have opened')
    // A loss may be the last thing that a gate hears of before it closes, and no settlement tells of that.
    for (const name of toldOf(true)) assert.ok(closed.includes(name), `the gate of ${name} is said to have closed`)
  }

  /** The settings of a budget, with the figures of all that share its allowance. */
  #together(name: string, now: number) {
    const named = [...this.#budgets].filter(([other]) => this.allowanceOf(other) === this.allowanceOf(name))
    const sharing = named.map(([, budget]) => budget)
    const { settings = {} } = this.#budgets.get(name) ?? {}
    return {
      settings,
      firsts: sharing.flatMap(({ firsts }) => firsts),
      passes: sharing.flatMap(({ passes }) => passes),
      retriesSince: Math.max(0, ...sharing.map(({ retriesSince }) => retriesSince)),
      floorAt: Math.max(0, ...sharing.map(budget => (isForgotten(budget, now) ? 0 : budget.floor.at))),
    }
  }

  #covering({ kind, category }: Lane): ModelBudget[] {
    return [...this.#budgets.values()].filter(({ scope }) => isCovering(scope, { kind, category }))
  }
}

/** Whether a budget covers a lane. */
export function isCovering(scope: BudgetScope, { kind, category }: Omit<Lane, 'key'>): boolean {
  return scope.kind === kind && (scope.category ?? category) === category
}

function setRetries(budget: ModelBudget, retries: RetryRules | undefined, now: number): void {
  const isSame = isDeepStrictEqual({ ...budget.settings.retries }, { ...retries })
  budget.settings = { failures: budget.settings.failures, retries }
  if (!isSame) Object.assign(budget, { floor: NO_FLOOR, retriesSince: now })
}

/** How many retries a floor saves up, and how long each takes: with those saved, a window never has more than it is worth. */
function floorOf({ floor, windowMs }: RetryRules) {
  const quota = Math.floor((floor * windowMs) / 1000 + 1e-9)
  const burst = Math.min(Math.ceil(floor), 1 + Math.floor(quota / 100))
  return { burst, eachMs: windowMs / (quota - burst + 1) }
}

/** Whether the window has none of the retries that a budget has let through. */
function isForgotten({ settings, floor }: ModelBudget, now: number): boolean {
  const { windowMs = 0 } = settings.retries ?? {}
  const stepMs = stepMsOf(windowMs)
  return stepOf(floor.passedAt, stepMs) <= now - windowMs - stepMs
}

/** Checks that a gate is as it was, or has opened for a reason, and takes it over. Returns whether it has opened. */
function followGate(budget: ModelBudget, gate: GateRecord, name: string, now: number): boolean {
  const { gate: before, settings, mayOpen, mustOpen } = budget
  const isOpened = gate.holds === before.holds + 1
  const mustHaveOpened = mustOpen && isExceeded(budget, now)
  if (isOpened) assert.ok(mayOpen || isExceeded(budget, now), `the gate of ${name} has opened`)
  else assert.ok(!mustHaveOpened, `the gate of ${name} should have opened`)
  const { holdMs = 0, share = 1 } = settings.failures ?? {}
  const hold = Math.min(holdMs * 2 ** before.holds, Math.max(holdMs, LONGEST_HOLD_MS))
  const after = isOpened ? { since: before.since ?? now, until: now + hold, holds: gate.holds } : before
  const { cause, ...shown } = gate
  const { since, until, holds } = after
  const state = stateOf(after, now)
  assert.deepEqual(shown, { state, since, until, holds }, `the gate of ${name}`)
  assert.equal(cause === undefined, state === 'closed')
  if (isOpened && cause !== undefined) assert.ok(cause.failed > share * cause.attempts, `the cause of ${name}`)
  Object.assign(budget, { gate, ...UNDECIDED, ...(isOpened && { probes: noProbes() }) })
  return isOpened
}

/** Follows a gate that its probes have closed. The attempts that the same call has counted since are in its record. */
function followClosing(budget: ModelBudget, { gate, recent }: BudgetRecord, now: number): boolean {
  if (!budget.mayClose || gate.state !== 'closed') return false
  const attempts = Array.from({ length: recent.attempts }, (_, n) => ({ at: now, isFailed: n < recent.failed }))
  Object.assign(budget, { gate, ...UNDECIDED, attempts, probes: noProbes() })
  return true
}

/** Whether as many probes have succeeded as the budget judges by, a window after its hold. */
function isProven({ settings, gate, probes }: ModelBudget, now: number): boolean {
  const { minAttempts = Infinity, windowMs = 0 } = settings.failures ?? {}
  return probes.ok >= minAttempts && now >= (gate.until ?? Infinity) + windowMs
}

function isExceeded(budget: ModelBudget, now: number): boolean {
  const { failures } = budget.settings
  if (failures === undefined) return false
  const { share, minAttempts } = failures
  const { ok, failed } = budget.probes
  switch (stateOf(budget.gate, now)) {
    case 'open':
      return false
    case 'half_open':
      return failed > share * (ok + failed)
    case 'closed': {
      const recent = recentOf(budget, now)
      return recent.attempts >= minAttempts && recent.failed > share * recent.attempts
    }
  }
}

function recentOf({ attempts, settings }: ModelBudget, now: number): BudgetRecord['recent'] {
  const windowMs = settings.failures?.windowMs ?? 0
  const recent = attempts.filter(({ at }) => stepOf(at, STEP_MS) > now - windowMs)
  return { attempts: recent.length, failed: recent.filter(({ isFailed }) => isFailed).length }
}

function retryFigures(
  { firsts, passes }: Pick<ModelBudget, 'firsts' | 'passes'>,
  { windowMs }: RetryRules,
  now: number,
) {
  const stepMs = stepMsOf(windowMs)
  return {
    first: firsts.filter(at => stepOf(at, stepMs) > now - windowMs).length,
    retried: passes.filter(at => stepOf(at, stepMs) > now - windowMs - stepMs).length,
  }
}

function stepMsOf(windowMs: number): number {
  return windowMs < 120_000 ? FINE_STEP_MS : STEP_MS
}

function stateOf({ since, until = 0 }: Pick<GateRecord, 'since' | 'until'>, now: number): GateRecord['state'] {
  if (since === undefined) return 'closed'
  return until > now ? 'open' : 'half_open'
}

function noProbes(): ModelBudget['probes'] {
  return { ok: 0, failed: 0, none: 0, started: 0, startedAt: -Infinity }
}

function nameOf({ kind, category }: BudgetScope): string {
  return JSON.stringify([kind, category])
}

function stepOf(at: number, stepMs: number): number {
  return at - (at % stepMs)
}
