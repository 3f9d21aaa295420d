import { isEncoded } from '../codec/internal.js'
import { type PayloadChecks, payloadAfter, payloadChecks, replacementProblem } from '../engine/internal.js'
import { exactValue } from '../policy/internal.js'
import type { TaskRecord } from '../store/index.js'
import { isItem, lengthProblem, type PayloadPatch, type TaskReader } from '../store/internal.js'
import type { DeclaredTask } from '../task/index.js'
import { payloadCheck } from '../task/internal.js'
import { getTasks } from './get-tasks.js'
import { pagesOf } from './pages.js'
import { filterOf, type LetterSelection } from './selection.js'

/** The part of a task that says which payloads it takes, and how they are encoded: `defineTask` and `declareTask` return it. */
export type TaskSchema = Pick<DeclaredTask, 'kind' | 'schema'> & Partial<Pick<DeclaredTask, 'codec'>>

/** Dead letters whose payloads were patched, and checked against the schemas of their tasks. */
export interface PayloadReport {
  /** How many were checked: the newest, at most 1000. */
  readonly checked: number
  /** How many of them no longer fit, or could not be patched. */
  readonly invalid: number
  /** One of those, and what is wrong with it. */
  readonly example: { readonly id: string; readonly problem: string } | null
  /** How many of them the patch does not change: they are redriven as they are. `null` without a patch. */
  readonly unchanged: number | null
  /** One that the patch changes. */
  readonly change: { readonly id: string; readonly before: unknown; readonly after: unknown } | null
}

const MAX_CHECKED = 1000
/** Letters whose payloads nobody checks are passed over. */
const MAX_READ = 10 * MAX_CHECKED

/** The checks that the schemas of tasks make. */
export function checksOf(tasks: readonly TaskSchema[]): PayloadChecks {
  return payloadChecks(tasks.map(task => ({ kind: task.kind, check: payloadCheck(task), codec: task.codec })))
}

/** Checks a payload that is to replace the one of a task. Resolves with it as the store keeps it, or with the problem. */
export async function replacedPayload(
  task: Pick<TaskRecord, 'id' | 'kind' | 'payload'>,
  payload: string,
  tasks: readonly TaskSchema[],
): Promise<{ readonly payload: string } | { readonly problem: string }> {
  const problem = lengthProblem(payload) ?? (await replacementProblem(task, payload, checksOf(tasks)))
  if (problem !== undefined) return { problem }
  const codec = tasks.find(({ kind }) => kind === task.kind)?.codec
  if (codec !== undefined) return { payload: codec.encode(payload, 'payload', task.id) }
  if (!isEncoded(task.payload)) return { payload }
  return { problem: 'the present one is encoded, and there is no codec for the new one here' }
}

/** Checks the payloads that dead letters would have if they were moved. */
export async function checkPayloads(
  store: Pick<TaskReader, 'get' | 'list'>,
  selection: LetterSelection,
  tasks: readonly TaskSchema[],
  patch: PayloadPatch | undefined,
): Promise<PayloadReport> {
  const checks = checksOf(tasks)
  let [read, checked, invalid, unchanged] = [0, 0, 0, 0]
  let example: PayloadReport['example'] = null
  let change: PayloadReport['change'] = null
  for await (const letter of lettersOf(store, selection)) {
    if (checked === MAX_CHECKED || ++read > MAX_READ) break
    const { id, kind } = letter
    if (patch === undefined ? !checks.has(kind) : isItem(letter)) continue
    checked++
    const after = await payloadAfter(letter, patch, checks)
    if ('problem' in after) {
      invalid++
      example ??= { id, problem: after.problem }
    } else if (after.after === after.before) unchanged++
    else change ??= { id, before: exactValue(after.before), after: exactValue(after.after) }
  }
  return { checked, invalid, example, unchanged: patch === undefined ? null : unchanged, change }
}

async function* lettersOf(
  store: Pick<TaskReader, 'get' | 'list'>,
  selection: LetterSelection,
): AsyncGenerator<TaskRecord> {
  if ('ids' in selection) {
    for await (const { task } of getTasks(store, selection.ids)) if (task?.status === 'dead') yield task
    return
  }
  for await (const page of pagesOf(page => store.list(filterOf(selection), page))) yield* page
}
