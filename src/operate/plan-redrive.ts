import type { Store } from '../store/index.js'
import { contractOf, type StandingReader, type TaskReader, type TwinRule } from '../store/internal.js'
import { checkStep } from './check-step.js'
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

/** Sets how a redrive is planned. */
interface PlanOptions {
  /** The number of dead letters in the sample; 20 by default. */
  readonly sampleSize?: number
  /** The rule for letters whose unique key another task has by now. */
  readonly twin?: TwinRule | undefined
  /** The step that is to run again. A name that none of the letters has is refused. */
  readonly step?: string | undefined
}

/** Plans a redrive, with a sample of the dead letters. */
export async function planRedrive(
  store: Store,
  selection: LetterSelection,
  { sampleSize = 20, twin = 'skip', step }: PlanOptions = {},
): Promise<RedrivePlan> {
  const contract = contractOf(store)
  checkSelection(selection)
  if ('ids' in selection) {
    const plan = await planNamed(contract, selection.ids, sampleSize, twin)
    if (step !== undefined && plan.count > 0) await checkStep(contract, selection, step)
    return plan
  }
  if (step !== undefined) await checkStep(contract, selection, step)
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
