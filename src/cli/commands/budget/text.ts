import type { BudgetView } from '../../../operate/index.js'
import { formatDuration } from '../../../policy/index.js'
import type { BudgetScope, CostBudget, FailureBudget } from '../../../store/internal.js'

import { grouped } from '../../terminal/chart.js'
import type { Console, Paint } from '../../terminal/console.js'
import { NAME_WIDTH, paragraph, table } from '../../terminal/table.js'
import { relative } from '../../terminal/times.js'
import { quoted } from '../../terminal/visible.js'
import { rateText } from '../lane/text.js'
import { costText } from '../shared/cost-text.js'

/** Budgets as a table, each with its figures on lines of their own. */
export function budgetTable(budgets: readonly BudgetView[], { width, paint }: Console, now: number): string {
  const hasRetries = budgets.some(({ retries }) => retries !== null)
  const columns = [
    { title: 'KIND', minWidth: NAME_WIDTH },
    { title: 'CATEGORY', minWidth: NAME_WIDTH },
    { title: 'GATE' },
    ...(hasRetries ? [{ title: 'HELD RETRIES' }] : []),
  ]
  const rows = budgets.map(budget => ({
    cells: [
      budget.kind,
      budget.category ?? 'all',
      gateText(budget, now),
      ...(hasRetries ? [heldText(budget, now)] : []),
    ],
    paints: [undefined, undefined, gatePaint(budget, paint)],
    details: [failuresText(budget), causeText(budget, now), retriesText(budget), costsText(budget, now)].flatMap(
      text => (text === undefined ? [] : paragraph(text, { width, indent: '  ' })),
    ),
  }))
  return table(columns, rows, { width, paint })
}

function failuresText({ failures, recent }: BudgetView): string | undefined {
  if (failures === null) return undefined
  const { share: allowed, minAttempts, windowMs } = failures
  const window = `${recent.failed} of ${recent.attempts} failed in ${formatDuration(windowMs)}`
  return `failures: ${window}; opens above ${percent(allowed)} of ${minAttempts} or more`
}

function retriesText({ retries }: BudgetView): string | undefined {
  if (retries === null) return undefined
  const { share: allowed, floor, windowMs, dependency, first, retried } = retries
  const whose = dependency === null ? '' : ` that call ${quoted(dependency)}`
  const window = `${retried} passed for ${first} first attempts${whose} in ${formatDuration(windowMs)}`
  return `retries: ${window}; at most ${percent(allowed)}, or ${rateText(floor)}`
}

function costsText({ cost }: BudgetView, now: number): string | undefined {
  if (cost === null) return undefined
  const { amounts, used, windowMs, until } = cost
  const figures = Object.entries(amounts).map(([bucket, amount]) => {
    return `${costText({ [bucket]: used[bucket] ?? 0 })} of ${costText({ [bucket]: amount }).slice(bucket.length + 1)}`
  })
  return `cost: ${figures.join(', ')} in ${formatDuration(windowMs)}; begins again ${relative(until, now)}`
}

function heldText({ retries }: BudgetView, now: number): string {
  if (retries === null || retries.held === 0) return retries === null ? '-' : '0'
  return `${grouped(retries.held)}, next ${retries.nextAt === null ? 'now' : relative(retries.nextAt, now)}`
}

function gateText({ failures, cost, gate: { state, until } }: BudgetView, now: number): string {
  if (cost?.isSpent === true) return `spent, until ${relative(cost.until, now)}`
  if (failures === null) return '-'
  if (state === 'half_open') return 'half open'
  return state === 'open' && until !== null ? `open, probes ${relative(until, now)}` : state
}

function gatePaint({ cost, gate: { state } }: BudgetView, paint: Paint): ((text: string) => string) | undefined {
  if (cost?.isSpent === true) return paint.red
  switch (state) {
    case 'open':
      return paint.red
    case 'half_open':
      return paint.yellow
    case 'closed':
      return undefined
  }
}

function causeText({ gate: { cause, since } }: BudgetView, now: number): string | undefined {
  if (cause === null || since === null) return undefined
  const group = cause.group === undefined ? '' : ` (group ${cause.group})`
  const failed = `${cause.failed} of ${cause.attempts} failed, mostly ${cause.code || 'without a code'}${group}`
  return `opened ${relative(since, now)}: ${failed}`
}

export function percent(part: number): string {
  return `${Number((part * 100).toFixed(2))}%`
}

/** `Kind 'charge' stops while more than 20% of its attempts fail, of at least 20 within 1m.` */
export function failureBudgetText(scope: BudgetScope, budget: Required<FailureBudget>): string {
  const { share, minAttempts, windowMs } = budget
  const enough = `of at least ${minAttempts} within ${formatDuration(windowMs)}`
  return `${scopeText(scope)} stops while more than ${percent(share)} of its attempts fail, ${enough}.`
}

/** `Kind 'ask' spends at most tokens 2 000 000 in 1d, and waits for the next window then.` */
export function costBudgetText(scope: BudgetScope, { amounts, windowMs }: Required<CostBudget>): string {
  const most = `${scopeText(scope)} spends at most ${costText(amounts)} in ${formatDuration(windowMs)}`
  return `${most}, and waits for the next window then.`
}

/** `Kind 'charge' in category 'eu'` */
export function scopeText({ kind, category }: BudgetScope): string {
  return `Kind ${quoted(kind)}${category === undefined ? '' : ` in category ${quoted(category)}`}`
}
