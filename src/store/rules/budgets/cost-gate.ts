import type { CostRecord } from '../../contract/budget-store.js'
import type { Cost } from '../../contract/task.js'
import { ownValue } from '../own-value.js'
import { sumOfCosts } from '../sum-of-costs.js'

/**
 * The rules of a cost budget: how many tasks may start before it would be exceeded. Pure, and used by memory and SQLite;
 * PostgreSQL has them in functions/cost-budgets.sql.
 *
 * An attempt tells what it has spent when it ends. So tasks that run are taken to spend as much as the mean of those that
 * have ended, and a task starts only if the budget has room for it beside them. Before the first has told, one runs at a time.
 */

/** A cost budget with its defaults. */
export interface CostSettings {
  readonly amounts: Cost
  readonly windowMs: number
}

/** What attempts have told that they spent, within a window. JSON. */
export interface SpentWindow {
  /** The start of the window. */
  readonly at: number
  /** How many attempts have told. */
  readonly attempts: number
  readonly used: Cost
}

/** More than any claim asks for. */
const MANY = 1_000_000

const NOTHING = { attempts: 0, used: {} }

/** The start of the window that a time is in. Windows follow each other from the epoch on, so a day is one in UTC. */
export function windowOf(now: number, windowMs: number): number {
  return now - (now % windowMs)
}

/** The windows after attempts have told what they spent. Of those that are over, the last is kept: its mean still counts. */
export function afterSpent(
  windows: readonly SpentWindow[],
  { attempts, used }: Omit<SpentWindow, 'at'>,
  windowMs: number,
  now: number,
): SpentWindow[] {
  const at = windowOf(now, windowMs)
  const before = windows.find(window => window.at === at - windowMs)
  const { attempts: earlier, used: spent } = windows.find(window => window.at === at) ?? NOTHING
  const current = { at, attempts: earlier + attempts, used: sumOfCosts([spent, used]) }
  return before === undefined ? [current] : [before, current]
}

/** What was spent in the present window, and as far as the mean of an attempt goes by it, in the one before. */
export interface Spent {
  readonly used: Cost
  readonly recent: Omit<SpentWindow, 'at'>
}

/** What counts now. */
export function spentNow(windows: readonly SpentWindow[], windowMs: number, now: number): Spent {
  const at = windowOf(now, windowMs)
  const current = windows.find(window => window.at === at) ?? NOTHING
  const before = windows.find(window => window.at === at - windowMs) ?? NOTHING
  return {
    used: current.used,
    recent: { attempts: current.attempts + before.attempts, used: sumOfCosts([before.used, current.used]) },
  }
}

/** How many more tasks may start beside those that run. */
export function costLeft({ amounts }: CostSettings, { used, recent }: Spent, running: number): number {
  const rooms = Object.entries(amounts).map(([bucket, amount]) => {
    const left = amount - (ownValue(used, bucket) ?? 0)
    if (left <= 0) return 0
    if (recent.attempts === 0) return 1
    const mean = (ownValue(recent.used, bucket) ?? 0) / recent.attempts
    return mean * MANY <= left ? MANY : Math.floor(left / mean)
  })
  return Math.max(0, Math.min(...rooms) - running)
}

/** A cost budget as it is shown. */
export function costRecord(
  settings: CostSettings,
  windows: readonly SpentWindow[],
  running: number,
  now: number,
): CostRecord {
  const { amounts, windowMs } = settings
  const spent = spentNow(windows, windowMs, now)
  const isSpent = costLeft(settings, spent, 0) === 0
  const left = costLeft(settings, spent, running)
  return { amounts, windowMs, used: spent.used, left, isSpent, until: windowOf(now, windowMs) + windowMs }
}
