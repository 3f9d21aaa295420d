import { batchOf } from '../store/internal.js'
import { totalOf } from './run-view.js'
import type { WhyCause, WhyStore } from './why-cause.js'

/** The batch of a task, beside the causes of its state; `undefined` for a task that is in none. */
export async function batchCause(store: Pick<WhyStore, 'batches'>, id: string): Promise<WhyCause | undefined> {
  const name = batchOf(id)
  const batch = name === undefined ? undefined : await store.batches.get(name)
  if (batch === undefined) return undefined
  const { status, counts } = batch
  const total = totalOf(counts)
  const left = counts.waiting + counts.running
  const ended = total - left
  const text =
    batch.endedAt === undefined
      ? `It is in the batch '${batch.name}', of whose ${total} tasks ${ended} have ended.`
      : `It is in the batch '${batch.name}', which has ended: ${status}.`
  return { code: 'in_batch', text, facts: { batch: batch.name, status, total, left, dead: counts.dead } }
}
