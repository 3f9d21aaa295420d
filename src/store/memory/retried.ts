import type { Page, PageRequest } from '../contract/list.js'
import type { RetriedTask } from '../contract/retried-task.js'
import { compareTexts, fullPage } from '../rules/cursor.js'
import type { MemoryTask } from './task.js'

/** A page of the tasks that were retried after a failure since then, in the order of their ids. */
export function retriedTasks(
  tasks: Iterable<MemoryTask>,
  since: number,
  { limit, after }: PageRequest,
): Page<RetriedTask> {
  const items = [...tasks]
    .filter(({ ledger }) => ledger.some(({ outcome, endedAt }) => outcome === 'retry' && endedAt >= since))
    .filter(({ record }) => after === undefined || compareTexts(record.id, after) > 0)
    .sort((a, b) => compareTexts(a.record.id, b.record.id))
    .slice(0, limit)
    .map(({ record: { id, kind, status }, ledger }) => ({
      id,
      kind,
      hasSucceeded: status === 'succeeded',
      ends: ledger.map(({ outcome, attempt, endedAt, category = '', policy = '', verdict }) => {
        return { outcome, attempt, endedAt, category, policy, code: verdict?.code ?? '' }
      }),
    }))
  return fullPage(items, limit, String(items.at(-1)?.id))
}
