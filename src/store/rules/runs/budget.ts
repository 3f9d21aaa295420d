import type { BudgetStop, ItemCounts, RunSettings } from '../../contract/run-store.js'
import { ownValue } from '../own-value.js'
import { noTasks } from '../task-state.js'
import { type StageCounts, totalOf } from './run-state.js'

/** The figures of a run at a moment, from which a later check subtracts. */
export interface Figures {
  readonly at: number
  /** Succeeded, skipped and dead items. */
  readonly processed: number
  readonly dead: number
  /** By stage, where it has a budget: the items that have left it, and those that died in it. */
  readonly stages: Readonly<Record<string, { readonly left: number; readonly dead: number }>>
}

/** The figures that a run keeps for its budget. */
export interface RunFigures {
  /** Where counting began: at the start, at the resumption after the last stop, or when the run was opened again. */
  readonly since: Figures
  /** How many items were processed at the last check. */
  readonly checked: number
  /** Earlier checks, oldest first: the beginnings of a sliding window. */
  readonly checks: readonly Figures[]
}

/** A budget that is exceeded. The store completes it with the cause. */
export type Exceeded = Omit<BudgetStop, 'at' | 'cause'> & {
  /** Items that died from then on were counted. */
  readonly since: number
}

/** A sliding window begins at one of about this many stored checks, so it may be a twentieth too long. */
const CHECKS_PER_WINDOW = 20

/** The figures of a run now. */
export function figuresOf(
  { stages, settings }: { readonly stages: readonly string[]; readonly settings: RunSettings },
  counts: StageCounts,
  now: number,
): Figures {
  const { succeeded, skipped, dead } = totalOf(counts)
  const budgets = Object.keys(settings.stageBudgets).map(stage => [stage, stageFigures(stage, stages, counts)])
  return { at: now, processed: succeeded + skipped + dead, dead, stages: Object.fromEntries(budgets) }
}

/** A budget that counts from these figures on. */
export function freshBudget(since: Figures): RunFigures {
  return { since, checked: since.processed, checks: [] }
}

/** A dead item that was redriven. */
export interface RedrivenItem {
  /** The stage in which it died. */
  readonly stage: string
  readonly diedAt: number
  /** The stage at which it goes on. */
  readonly to: string
}

/** Takes redriven items out of the figures that counted them: those from after their death. */
export function withoutRedriven(
  { since, checked, checks }: RunFigures,
  run: { readonly stages: readonly string[]; readonly settings: RunSettings },
  items: readonly RedrivenItem[],
): RunFigures {
  const without = (then: Figures) => {
    const counted = items.filter(({ diedAt }) => diedAt < then.at)
    const dead = figuresOf(run, countsBy(counted, 'stage', 'dead'), then.at)
    const waiting = figuresOf(run, countsBy(counted, 'to', 'waiting'), then.at)
    const stages = Object.entries(then.stages).map(([stage, figures]) => {
      const [before, after] = [ownValue(dead.stages, stage) ?? NONE, ownValue(waiting.stages, stage) ?? NONE]
      return [stage, { left: figures.left - before.left + after.left, dead: figures.dead - before.dead }]
    })
    const [processed, died] = [then.processed - dead.processed, then.dead - dead.dead]
    return { at: then.at, processed, dead: died, stages: Object.fromEntries(stages) }
  }
  return { since: without(since), checked, checks: checks.map(without) }
}

/** Bounds the figures to subtract by those of now: items that are no longer counted must not count against others. */
export function lowered({ since, checked, checks }: RunFigures, now: Figures): RunFigures {
  return {
    since: least(since, now),
    checked: Math.min(checked, now.processed),
    checks: checks.map(check => least(check, now)),
  }
}

/** How many items must have been processed before the budget is looked at again. */
export function nextCheckAt({ since, checked }: RunFigures, settings: RunSettings): number {
  const { failureBudget, stageBudgets, checkInterval } = settings
  if (Math.min(failureBudget, ...Object.values(stageBudgets)) >= 1) return Infinity
  return since.processed + (Math.floor((checked - since.processed) / checkInterval) + 1) * checkInterval
}

/**
 * Checks a budget, if a multiple of its interval was reached since the last check. A stage's budget is looked at once that
 * many items have left the stage.
 */
export function checkBudget(
  kept: RunFigures,
  settings: RunSettings,
  figures: Figures,
): { readonly budget: RunFigures; readonly exceeded: Exceeded | undefined } {
  const low = lowered(kept, figures)
  if (figures.processed < nextCheckAt(low, settings)) return { budget: low, exceeded: undefined }
  const from = windowStart(low, settings, figures)
  const checks = withCheck(low, settings, figures, from)
  return { budget: { ...low, checked: figures.processed, checks }, exceeded: exceededSince(from, settings, figures) }
}

function exceededSince(from: Figures, settings: RunSettings, now: Figures): Exceeded | undefined {
  const { failureBudget, stageBudgets, checkInterval } = settings
  const whole = excess(undefined, now.processed - from.processed, now.dead - from.dead, failureBudget, from.at)
  if (whole !== undefined) return whole
  for (const [stage, budget] of Object.entries(stageBudgets)) {
    const [first, last] = [ownValue(from.stages, stage) ?? NONE, ownValue(now.stages, stage) ?? NONE]
    const left = last.left - first.left
    const found = left < checkInterval ? undefined : excess(stage, left, last.dead - first.dead, budget, from.at)
    if (found !== undefined) return found
  }
  return undefined
}

const NONE = { left: 0, dead: 0 }

function excess(
  stage: string | undefined,
  processed: number,
  dead: number,
  budget: number,
  since: number,
): Exceeded | undefined {
  const rate = processed > 0 ? dead / processed : 0
  return rate > budget ? { stage, processed, dead, rate, budget, since } : undefined
}

/** The latest check that lies a whole window back; where counting began, as long as there is none. */
function windowStart({ since, checks }: RunFigures, { budgetWindow }: RunSettings, now: Figures): Figures {
  if (budgetWindow === undefined) return since
  return checks.findLast(({ processed }) => now.processed - processed >= budgetWindow) ?? since
}

/** Keeps a check for later windows, unless the one before is close, and drops those before the present window. */
function withCheck(
  { since, checks }: RunFigures,
  { budgetWindow }: RunSettings,
  now: Figures,
  from: Figures,
): readonly Figures[] {
  if (budgetWindow === undefined) return []
  const last = checks.at(-1) ?? since
  const isFar = now.processed - last.processed >= budgetWindow / CHECKS_PER_WINDOW
  const kept = checks.filter(({ processed }) => processed >= from.processed)
  return isFar ? [...kept, now] : kept
}

/** Items leave a stage when they end in it, and when they go on to a later one. */
function stageFigures(stage: string, stages: readonly string[], counts: StageCounts) {
  const place = stages.indexOf(stage)
  const here = counts.get(stage)
  const dead = here?.dead ?? 0
  let left = (here?.succeeded ?? 0) + (here?.skipped ?? 0) + dead
  for (const later of place < 0 ? [] : stages.slice(place + 1)) left += sum(counts.get(later))
  return { left, dead }
}

function sum(counts: ItemCounts | undefined): number {
  return counts === undefined ? 0 : Object.values(counts).reduce((all, count) => all + count, 0)
}

function countsBy(
  items: readonly RedrivenItem[],
  place: 'stage' | 'to',
  status: 'dead' | 'waiting',
): Map<string, ItemCounts> {
  const counts = new Map<string, ReturnType<typeof noTasks>>()
  for (const item of items) {
    const here = counts.get(item[place]) ?? noTasks()
    here[status]++
    counts.set(item[place], here)
  }
  return counts
}

function least(then: Figures, now: Figures): Figures {
  const stages = Object.entries(then.stages).map(([stage, { left, dead }]) => {
    const here = ownValue(now.stages, stage) ?? NONE
    return [stage, { left: Math.min(left, here.left), dead: Math.min(dead, here.dead) }]
  })
  return {
    at: then.at,
    processed: Math.min(then.processed, now.processed),
    dead: Math.min(then.dead, now.dead),
    stages: Object.fromEntries(stages),
  }
}
