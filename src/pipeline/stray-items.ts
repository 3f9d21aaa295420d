import { commandLine, quoted } from '../policy/internal.js'

import { itemKind, type RunRecord, type StoreContract } from '../store/internal.js'
import { StageGoneError } from './errors.js'
import type { StageCode } from './stage.js'

/** Refuses a run with items at a stage which the code of its pipeline does not have: it would never end. */
export function checkRunStages({ id, pipeline, byStage }: RunRecord, stages: readonly string[]): void {
  for (const { stage, counts } of byStage) {
    const items = counts.waiting + counts.running
    if (items > 0 && !stages.includes(stage)) throw new StageGoneError(id, stage, items, pipeline)
  }
}

/**
 * Warns of items that wait at a stage which the code of their pipeline does not have: no worker would ever claim them. Notes the stages
 * of this code with their runs, so that they can be moved there.
 */
export async function warnOfStrayItems(
  { name, version, stages: code }: PipelineCode,
  store: Pick<StoreContract, 'lanes' | 'runs'>,
): Promise<void> {
  const stages = code.map(stage => stage.name)
  const lanes = (await store.lanes({ kind: itemKind(name) })).filter(({ category }) => !stages.includes(category))
  const waiting = new Map<string, number>()
  for (const { key, category } of lanes) {
    const counts = (await store.runs.get(key))?.byStage.find(({ stage }) => stage === category)?.counts
    if (counts === undefined || counts.waiting === 0) continue
    await store.runs.change(key, { stages, version })
    waiting.set(category, (waiting.get(category) ?? 0) + counts.waiting)
  }
  for (const [stage, count] of waiting)
    process.emitWarning(warning(name, stage, count), { type: 'RedriveWarning', code: 'stage_gone' })
}

/** The code of a pipeline. */
interface PipelineCode {
  readonly name: string
  readonly version: string
  readonly stages: readonly StageCode[]
}

function warning(pipeline: string, stage: string, waiting: number): string {
  const items = waiting === 1 ? '1 item of it waits' : `${waiting} items of it wait`
  return `The pipeline '${pipeline}' has no stage ${quoted(stage)}, and ${items} there. Move them: ${commandLine('pipeline reprocess', { '--pipeline': pipeline, '--stage': stage, '--as': 'STAGE' })}`
}
