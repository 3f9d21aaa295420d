import { quoted } from '../policy/internal.js'
import type { RunRecord, Store } from '../store/index.js'
import { StageGoneError } from './errors.js'
import { pipelineKind } from './pipeline-kind.js'
import type { StageCode } from './stage.js'

/** Refuses a run with items at a stage which the code of its pipeline does not have: it would never end. */
export function checkRunStages({ id, pipeline, byStage }: RunRecord, stages: readonly string[]): void {
  for (const { stage, counts } of byStage) {
    const items = counts.waiting + counts.running
    if (items > 0 && !stages.includes(stage)) throw new StageGoneError(id, stage, items, pipeline)
  }
}

/** Warns of items that wait at a stage which the code of their pipeline does not have: no worker would ever claim them. */
export async function warnOfStrayItems(
  pipeline: string,
  stages: readonly StageCode[],
  store: Pick<Store, 'lanes' | 'count'>,
): Promise<void> {
  const kind = pipelineKind(pipeline)
  const known = new Set(stages.map(({ name }) => name))
  const found = new Set((await store.lanes({ kind })).map(({ category }) => category))
  for (const category of found) {
    if (known.has(category)) continue
    const { waiting } = await store.count({ kind, category })
    if (waiting > 0)
      process.emitWarning(warning(pipeline, category, waiting), { type: 'RedriveWarning', code: 'stage_gone' })
  }
}

function warning(pipeline: string, stage: string, waiting: number): string {
  const items = waiting === 1 ? '1 item of it waits' : `${waiting} items of it wait`
  return `The pipeline '${pipeline}' has no stage ${quoted(stage)}, and ${items} there. Move them: redrive pipeline reprocess --pipeline ${pipeline} --stage ${stage} --as STAGE`
}
