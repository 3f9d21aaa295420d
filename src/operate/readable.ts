import type { KindCodec } from '../codec/internal.js'
import { decodedRow, decodedStep, decodedTask, leniently } from '../engine/internal.js'
import type { LedgerRow, TaskRecord } from '../store/index.js'
import type { StepRecord } from '../store/internal.js'
import type { TaskSchema } from './payload-report.js'
import { type TaskView, taskView } from './task-view.js'

/** The codecs of kinds. */
export type Codecs = ReadonlyMap<string, KindCodec>

/** The codecs of those tasks that have one. */
export function codecsOf(tasks: readonly TaskSchema[] = []): Codecs {
  return new Map(tasks.flatMap(({ kind, codec }) => (codec === undefined ? [] : [[kind, codec] as const])))
}

/** The view of a task, decoded as far as there are codecs for it. */
export function readableView(task: TaskRecord, codecs: Codecs): TaskView {
  const codec = codecs.get(task.kind)
  if (codec === undefined) return taskView(task)
  let problem: string | undefined
  const decode = leniently(codec, ({ message }) => {
    problem ??= message
  })
  const view = taskView(decodedTask(task, codec, decode))
  return problem === undefined ? view : { ...view, unreadable: problem }
}

/** The history of a task, decoded as far as there are codecs for it. */
export function readableRows(
  rows: readonly LedgerRow[],
  { id, kind }: Pick<TaskRecord, 'id' | 'kind'>,
  codecs: Codecs,
): readonly LedgerRow[] {
  const codec = codecs.get(kind)
  if (codec === undefined) return rows
  return rows.map(row =>
    decodedRow(
      row,
      id,
      codec,
      leniently(codec, () => {}),
    ),
  )
}

/** The steps of a task, decoded as far as there are codecs for it. */
export function readableSteps(
  steps: readonly StepRecord[],
  { id, kind }: Pick<TaskRecord, 'id' | 'kind'>,
  codecs: Codecs,
): readonly StepRecord[] {
  const codec = codecs.get(kind)
  if (codec === undefined) return steps
  return steps.map(step =>
    decodedStep(
      step,
      id,
      codec,
      leniently(codec, () => {}),
    ),
  )
}
