import { checkOptions } from '../policy/internal.js'
import type { LedgerRow, Store, TaskRecord } from '../store/index.js'
import {
  type AttemptTraces,
  attemptTraces,
  contractOf,
  isItem,
  type StoreContract,
  stepRecord,
  type TaskReader,
} from '../store/internal.js'
import { adviceFor, causeOf, fatalStep, type Remark } from './cause.js'
import { type AttemptNotesView, lastNotes } from './notes-view.js'
import type { TaskSchema } from './payload-report.js'
import { codecsOf, readableRows, readableSteps, readableView } from './readable.js'
import { type StepView, stepView } from './step-view.js'
import { type LedgerRowView, ledgerRowView, shown, type TaskView } from './task-view.js'

/** A task with its whole history and, if it is dead, why it died and what to do about it. */
export interface TaskExplanation extends TaskView {
  /** The attempts that its policy allows; `null` until a policy has decided on it. */
  readonly maxAttempts: number | null
  /** Its ledger, oldest first. */
  readonly history: readonly LedgerRowView[]
  /** Its steps, in the order in which they were first recorded. */
  readonly steps: readonly StepView[]
  /** The notes of the attempt under way, or of the last one that failed; `null` if there are none. */
  readonly notes: AttemptNotesView | null
  /** Where its code failed last: a line for each frame. `null` if no stack is on record. */
  readonly stack: string | null
  /** The ids of the traces of its first and its last attempt; `null` if none was traced. */
  readonly traces: AttemptTraces | null
  /** Why it is dead; `null` if it is not. */
  readonly cause: Remark | null
  /** The next step before it is redriven; `null` if it is not dead. */
  readonly advice: Remark | null
  /**
   * The number of dead letters like it, itself included: those of its failure group. Those with the same kind and error code if
   * it has no group, or is an item: items are reprocessed by their code.
   */
  readonly alike: number
  /** Of a dead letter at which its ordered lane stops: how many tasks wait in that lane. `null` if it stops none. */
  readonly blocks: { readonly waiting: number } | null
}

type Reader = TaskReader & Pick<StoreContract, 'policies' | 'lanes'>

/** Options of `explainTask`. @inline */
export interface ExplainTaskOptions {
  /** Tasks whose codecs decode what is encoded. Default: none. */
  readonly tasks?: readonly TaskSchema[] | undefined
}

/** Explains a task. Resolves with `undefined` if the store has none with this id. */
export async function explainTask(
  store: Store,
  id: string,
  options: ExplainTaskOptions = {},
): Promise<TaskExplanation | undefined> {
  checkOptions('explainTask()', options, { tasks: 'object' })
  const codecs = codecsOf(options.tasks)
  const contract = contractOf(store)
  const task = await contract.get(id)
  if (task === undefined) return undefined
  const isDead = task.status === 'dead'
  const history = readableRows(await contract.ledger(id), task, codecs)
  const steps = readableSteps((await contract.steps(id)).map(stepRecord), task, codecs)
  return {
    ...readableView(task, codecs),
    maxAttempts: await maxAttemptsOf(contract, history),
    history: history.map(ledgerRowView),
    steps: steps.map(stepView),
    notes: (await lastNotes(contract, task, history, codecs.get(task.kind))) ?? null,
    stack: shown(history.findLast(({ stack }) => stack !== undefined)?.stack),
    traces: attemptTraces(history) ?? null,
    cause: isDead ? causeOf(task, fatalStep(history, steps)) : null,
    advice: isDead ? adviceFor(task, history.findLast(({ outcome }) => outcome === 'dead')?.stack) : null,
    alike: isDead ? await countAlike(contract, task) : 0,
    blocks: isDead ? await blockedTasks(contract, task) : null,
  }
}

async function blockedTasks(
  store: Reader,
  { id, kind, category, key }: TaskRecord,
): Promise<TaskExplanation['blocks']> {
  const [lane] = await store.lanes({ kind, category, key })
  if (lane?.blockedBy !== id) return null
  return { waiting: (await store.count({ status: 'waiting', kind, category, key })).waiting }
}

/** The attempts that the policy of the last decision allows. */
async function maxAttemptsOf(store: Reader, history: readonly LedgerRow[]): Promise<number | null> {
  const hash = history.findLast(row => row.policy !== undefined)?.policy
  const json = hash === undefined ? undefined : await store.policies.get(hash)
  if (json === undefined) return null
  const policy: unknown = JSON.parse(json)
  const isPolicy = typeof policy === 'object' && policy !== null && 'attempts' in policy
  return isPolicy && typeof policy.attempts === 'number' ? policy.attempts : null
}

async function countAlike(store: Reader, task: TaskRecord): Promise<number> {
  const { kind, errorCode, group } = task
  if (group !== undefined && !isItem(task)) return (await store.count({ status: 'dead', group })).dead
  return errorCode === undefined ? 1 : (await store.count({ status: 'dead', kind, errorCode })).dead
}
