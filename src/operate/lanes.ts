import type { BudgetRecord, Lane, LaneLimits, LaneRecord, LaneSelection, Store } from '../store/index.js'
import type { SharedLimits } from '../store/internal.js'
import { contractOf, type GateState, type LaneRules, type PauseRule } from '../store/internal.js'
import { gateOf, openGates } from './gates.js'
import { limitSetters } from './limit-setters.js'
import { isoOrNull } from './task-view.js'

/** A lane as plain JSON, or a rule for lanes that do not exist yet. */
export interface LaneView {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** The category; empty if there is none. `null` in a rule for all categories. */
  readonly category: string | null
  /** The key; empty if there is none. `null` in a rule for all keys. */
  readonly key: string | null
  /**
   * `paused` by an operator, `gated` by a failure budget, or a cost budget that is spent, `blocked` by the dead letter `blockedBy`, `held` by a rate limit until
   * `heldUntil`, or `open`.
   */
  readonly state: LaneState
  /** The gate of the failure budget that keeps its tasks back; `null` if none does. */
  readonly gate: LaneGate | null
  /** Who paused it; `null` if it is not paused. */
  readonly pause: PauseView | null
  /** ISO 8601 text in UTC; `null` if it is not held. */
  readonly heldUntil: string | null
  /** The id of the task that holds it. */
  readonly heldBy: string | null
  /** The id of the dead letter at which it stops. */
  readonly blockedBy: string | null
  /** Its tasks that wait, whatever they wait for. */
  readonly waiting: number
  /** Its tasks that run. */
  readonly running: number
  /** Its dead letters. */
  readonly dead: number
  /** The limits of this lane by itself. */
  readonly limits: LaneLimits
  /** The limit that it shares with other lanes, with its learned pace in starts per second, and the quota that it is of. */
  readonly shared: {
    readonly limits: SharedLimits
    readonly pace: number | null
    /** The name of the quota; `null` if it is the limit of a kind or category, or what limits each quota of a kind. */
    readonly quota: string | null
  } | null
  /** The operator who set the limits, its own or else the shared ones; `null` if none is on record, such as for those of code. */
  readonly limitedBy: PauseView | null
  /** Whether no such lane exists yet: it is what an operator or code has set for lanes that come later. */
  readonly isRule: boolean
}

/** Whether the tasks of a lane may start. */
export type LaneState = 'open' | 'paused' | 'gated' | 'blocked' | 'held'

/** A gate that is not closed, or a cost budget that is spent. */
export interface LaneGate {
  /** `open`: no task starts. `half_open`: a few start, to find out. */
  readonly state: Exclude<GateState, 'closed'> | 'spent'
  /** When it lets the next task start, to find out; in the past if it is half open. */
  readonly until: string | null
}

/** Who paused or limited lanes, as plain JSON. `null` where it was not recorded. */
export interface PauseView {
  /** The person who asked for it. */
  readonly who: string | null
  /** The reason. */
  readonly why: string | null
  /** Since when. */
  readonly at: string | null
}

/**
 * Lists lanes with their state, their limits and their numbers of tasks, by kind, category and key: first those with work,
 * or that are not open, then those with limits, then the others; then the pauses and limits that hold for lanes that do not
 * exist yet.
 */
export async function listLanes(store: Store, filter: Partial<Lane> = {}): Promise<LaneView[]> {
  const contract = contractOf(store)
  const [lanes, gates, rules, setter, counts] = await Promise.all([
    contract.lanes(filter),
    openGates(contract),
    contract.laneRules(filter),
    limitSetters(contract.audit),
    contract.countBy(filter, ['kind', 'category', 'key', 'status']),
  ])
  const byName = new Map<string, number>()
  for (const { kind = '', category = '', key = '', status, count } of counts) {
    byName.set(nameOf({ kind, category, key }, status), count)
  }
  const views = lanes.map(lane => ({
    kind: lane.kind,
    category: lane.category,
    key: lane.key,
    state: stateOf(lane, gates),
    gate: gateView(gateOf(gates, lane)),
    pause: lane.isPaused ? pauseView(pauseOf(lane, rules)) : null,
    heldUntil: isoOrNull(lane.heldUntil),
    heldBy: lane.heldBy ?? null,
    blockedBy: lane.blockedBy ?? null,
    waiting: byName.get(nameOf(lane, 'waiting')) ?? 0,
    running: lane.running,
    dead: byName.get(nameOf(lane, 'dead')) ?? 0,
    limits: lane.limits,
    shared: sharedView(lane.shared),
    limitedBy: null,
    isRule: false,
  }))
  const sorted = views.sort((a, b) => rank(a) - rank(b) || (nameOf(a) < nameOf(b) ? -1 : 1))
  return [...sorted, ...ruleViews(rules, lanes)].map(view => {
    const { limits, shared } = view
    const own = Object.keys(limits).length === 0 ? null : setter(view, limits)
    return { ...view, limitedBy: own ?? (shared && setter(view, shared.limits)) }
  })
}

/** Lanes with work, or that something keeps back, come first; then those with limits; and empty ones last. */
function rank({ state, waiting, running, dead, limits, shared }: LaneView): number {
  if (waiting + running + dead > 0 || state !== 'open') return 0
  return Object.keys(limits).length > 0 || shared !== null ? 1 : 2
}

/** The pause of a lane: the last rule that matches it. */
export function pauseOf(lane: Lane, { pauses }: LaneRules): PauseRule | undefined {
  return pauses.findLast(rule => selects(rule, lane))
}

/** A pause as plain JSON. */
function pauseView(rule: PauseRule | undefined): PauseView {
  return { who: rule?.by?.who ?? null, why: rule?.by?.why ?? null, at: isoOrNull(rule?.at) }
}

/** The rules for lanes that do not exist yet: one view for each selection of lanes. */
function ruleViews({ pauses, limits }: LaneRules, lanes: readonly LaneRecord[]): LaneView[] {
  const views = new Map<string, LaneView>()
  const change = (rule: LaneSelection, set: Partial<LaneView>) => {
    if (lanes.some(lane => selects(rule, lane))) return
    const { kind, category = null, key = null } = rule
    const name = JSON.stringify([kind, category, key])
    views.set(name, { ...NO_LANE, kind, category, key, ...views.get(name), ...set })
  }
  for (const rule of pauses) if (rule.isPaused) change(rule, { state: 'paused', pause: pauseView(rule) })
  for (const { limits: set, ...rule } of limits) {
    if ('isShared' in set && set.isPerQuota) {
      const isSeen = lanes.some(({ kind, shared }) => kind === rule.kind && shared?.quota !== undefined)
      if (!isSeen) views.set(`${rule.kind} per quota`, quotaRule(rule.kind, set))
    } else if ('isShared' in set) change(rule, { shared: { limits: set, pace: null, quota: null } })
    else if (Object.keys(set).length > 0) change(rule, { limits: set })
  }
  return [...views.values()]
}

function sharedView(shared: LaneRecord['shared']): LaneView['shared'] {
  return shared === undefined ? null : { limits: shared.limits, pace: shared.pace ?? null, quota: shared.quota ?? null }
}

/** The limits of each quota of a kind. */
function quotaRule(kind: string, limits: SharedLimits): LaneView {
  return { ...NO_LANE, kind, category: null, key: null, shared: { limits, pace: null, quota: null } }
}

const NO_LANE = {
  state: 'open',
  gate: null,
  pause: null,
  heldUntil: null,
  heldBy: null,
  blockedBy: null,
  waiting: 0,
  running: 0,
  dead: 0,
  limits: {},
  shared: null,
  limitedBy: null,
  isRule: true,
} as const

function selects({ kind, category, key }: LaneSelection, lane: Lane): boolean {
  return (
    kind === lane.kind &&
    (category === undefined || category === lane.category) &&
    (key === undefined || key === lane.key)
  )
}

/** Whether the tasks of a lane may start, given the gates that are not closed. */
export function stateOf(lane: LaneRecord, gates: readonly BudgetRecord[]): LaneState {
  if (lane.isPaused) return 'paused'
  if (gateOf(gates, lane) !== undefined) return 'gated'
  if (lane.blockedBy !== undefined) return 'blocked'
  return lane.heldUntil === undefined ? 'open' : 'held'
}

function gateView(budget: BudgetRecord | undefined): LaneGate | null {
  if (budget?.cost?.isSpent === true) return { state: 'spent', until: isoOrNull(budget.cost.until) }
  if (budget === undefined || budget.gate.state === 'closed') return null
  return { state: budget.gate.state, until: isoOrNull(budget.gate.until) }
}

function nameOf({ kind, category, key }: Pick<LaneView, 'kind' | 'category' | 'key'>, status = ''): string {
  return JSON.stringify([kind, category, key, status])
}
