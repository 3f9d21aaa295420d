import type { Store } from '../store/index.js'
import { contractOf, type StandingReader, type TaskReader, type TwinRule } from '../store/internal.js'
import { getTasks } from './get-tasks.js'
import { notDead, notFound, type Refusal, twinAlive } from './refusal.js'
import { checkSelection, filterOf, type LetterSelection } from './selection.js'
import { type TaskView, taskView } from './task-view.js'

/** The effect that a redrive would have now. Nothing is moved. */
export interface RedrivePlan {
  /** The number of dead letters that would be moved. */
  readonly count: number
  /** The first of them, newest first; in the order given if they were named. */
  readonly sample: readonly TaskView[]
  /** Tasks that were named and cannot be redriven. */
  readonly refused: readonly Refusal[]
}

const PAGE = 500

/** Plans a redrive, with a sample of `sampleSize` dead letters (20 by default). */
export async function planRedrive(
  store: Store,
  selection: LetterSelection,
  { sampleSize = 20, twin = 'skip' }: { readonly sampleSize?: number; readonly twin?: TwinRule | undefined } = {},
): Promise<RedrivePlan> {
  const contract = contractOf(store)
  checkSelection(selection)
  if ('ids' in selection) return planNamed(contract, selection.ids, sampleSize, twin)
  const filter = filterOf(selection)
  const { dead } = await contract.count(filter)
  const sample: TaskView[] = []
  let after: string | undefined
  do {
    const limit = Math.min(PAGE, sampleSize - sample.length)
    if (limit <= 0) break
    const { items, next } = await contract.list(filter, { limit, after })
    sample.push(...items.map(taskView))
    after = next
  } while (after !== undefined)
  return { count: dead, sample, refused: [] }
}

async function planNamed(
  store: TaskReader & StandingReader,
  ids: readonly string[],
  sampleSize: number,
  rule: TwinRule,
): Promise<RedrivePlan> {
  let count = 0
  const sample: TaskView[] = []
  const refused: Refusal[] = []
  for await (const { id, task } of getTasks(store, ids)) {
    if (task?.status !== 'dead') {
      refused.push(task === undefined ? notFound(id) : notDead(id, task.status))
      continue
    }
    const isMet = rule === 'skip' && task.unique?.while === 'unfinished'
    const twin = isMet ? (await store.standing(id, 0))?.twin : undefined
    if (twin !== undefined) {
      refused.push(twinAlive(id, twin))
      continue
    }
    count++
    if (sample.length < sampleSize) sample.push(taskView(task))
  }
  return { count, sample, refused }
}
