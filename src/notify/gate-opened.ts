import { commandLine } from '../policy/internal.js'
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

function noticeOf({ kind, category, gate: { state, since, until, cause } }: BudgetRecord): Notice | undefined {
  if (since === undefined || until === undefined || cause === undefined) return undefined
  const { code, attempts, failed } = cause
  const name = redact(category ? `${kind} (${category})` : kind)
  const time = `${iso(until).slice(11, 19)} UTC`
  // By the first look of a new process, the hold may be over.
  const next =
    state === 'open' ? `One task tries again at ${time}.` : `A few tasks have been trying again since ${time}.`
  return {
    type: 'gate_opened',
    subject: `${kind}/${category ?? '*'}/${since}`,
    text: `${name} is stopped on all machines: ${failed} of ${attempts} recent attempts failed, most of them with ${redact(code)}. ${next} To see it, run: ${commandLine('budget ls')}`,
    facts: { kind, category: category ?? null, since: iso(since), until: iso(until), code, attempts, failed },
  }
}

function iso(at: number): string {
  return new Date(at).toISOString()
}
