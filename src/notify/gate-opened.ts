import type { BudgetRecord } from '../store/index.js'
import { redact } from '../telemetry/index.js'
import type { Notice } from './notice.js'
import type { Occasion } from './occasion.js'

/** Tells when a failure budget has stopped a kind on all machines: once, until its gate has closed again. */
export const gateOpened: Occasion = async ({ store, since, isFirst }) => {
  const budgets = await store.budgets.list()
  // An outage may outlast the retention of its message: gates that were told of are not told of again.
  const news = budgets.filter(({ gate }) => isFirst || (gate.since ?? 0) >= since)
  return news.flatMap(budget => noticeOf(budget) ?? [])
}

function noticeOf({ kind, category, gate: { since, cause } }: BudgetRecord): Notice | undefined {
  if (since === undefined || cause === undefined) return undefined
  const { code, attempts, failed } = cause
  const name = redact(category ? `${kind} (${category})` : kind)
  return {
    type: 'gate_opened',
    subject: `${kind}/${category ?? '*'}/${since}`,
    text: `${name} is stopped on all machines: ${failed} of ${attempts} recent attempts failed, most of them with ${redact(code)}. One task tries again when the hold is over.`,
    facts: { kind, category: category ?? null, since, code, attempts, failed },
  }
}
