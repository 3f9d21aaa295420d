import { type BudgetReader, openGates, type TaskScope, withGated } from '../../../operate/internal.js'

import type { KindStats, TaskReader } from '../../../store/internal.js'
import { moment } from '../../terminal/times.js'
import { keptBackTexts, tasksText } from '../ops/kept-back.js'

/** With more tasks than this, the next due time is not looked for. */
const MAX_LOOKED_AT = 1000

/** Says what tasks wait for that cannot start now: a sentence for each reason. */
export async function waitingTexts(
  store: Pick<TaskReader, 'stats' | 'list'> & BudgetReader,
  scope: TaskScope,
): Promise<readonly string[]> {
  const [{ now, kinds }, gates] = await Promise.all([store.stats(), openGates(store)])
  const parts = kinds.filter(part => isIn(scope, part))
  const delayed = parts.reduce((total, part) => total + notDue(part), 0)
  return [
    ...(delayed > 0 ? [delayedText(delayed, await dueTimes(store, scope, now), now)] : []),
    ...keptBackTexts(withGated(parts, gates)),
  ]
}

/** Stores count the tasks behind a gate as held. */
function notDue({ waiting, paused, held, budgeted, ready, limited }: KindStats): number {
  return waiting - paused - held - budgeted - ready - limited
}

function delayedText(delayed: number, dueAt: readonly number[], now: number): string {
  // Others are due later too, but in lanes that are paused or held.
  if (dueAt.length !== delayed) return `${tasksText(delayed)} for the time of the next attempt.`
  const next = moment(Math.min(...dueAt), now)
  return `${tasksText(delayed)}${delayed === 1 ? '' : ', the first'} until ${next}.`
}

/** When the tasks are due that are not due yet. */
async function dueTimes(store: Pick<TaskReader, 'list'>, { kinds, categories }: TaskScope, now: number) {
  const filters = kinds.flatMap(kind => categories?.map(category => ({ kind, category })) ?? [{ kind }])
  const pages = await Promise.all(
    filters.map(filter => store.list({ ...filter, status: 'waiting' }, { limit: MAX_LOOKED_AT })),
  )
  return pages.flatMap(({ items }) =>
    items.flatMap(({ nextAttemptAt = 0 }) => (nextAttemptAt > now ? nextAttemptAt : [])),
  )
}

function isIn({ kinds, categories }: TaskScope, { kind, category }: KindStats): boolean {
  return kinds.includes(kind) && (categories === undefined || categories.includes(category))
}
