import { OptionError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { By, Store } from '../store/index.js'
import {
  contractOf,
  itemKind,
  type LaneControl,
  type ReprocessFilter,
  type RunRecord,
  type RunStore,
  type TaskReader,
} from '../store/internal.js'

/**
 * Which dead items to reprocess: those of a run, or of all runs of a pipeline. An absent field matches everything.
 *
 * @inline
 */
export type ReprocessSelection = ({ readonly run: string } | { readonly pipeline: string }) & {
  /** The stage that they died in. */
  readonly stage?: string | undefined
  readonly errorCode?: string | undefined
  /** Move them to this stage: for one that was renamed or is gone. Items that wait at `stage` are moved too. */
  readonly as?: string | undefined
}

/** The effect that reprocessing would have now. Nothing is moved. */
export interface ReprocessPlan {
  /** How many items would be moved. */
  readonly count: number
  /** The items to be moved, by the stage where they are. `waiting` ones are moved only with `as`. */
  readonly byStage: readonly { readonly stage: string; readonly dead: number; readonly waiting: number }[]
  /** Stages among them that the pipeline has no code for any more. They need `as`. */
  readonly missing: readonly string[]
}

/** How to reprocess. */
export interface ReprocessRunOptions extends By {
  /** Stops it after the current batch. Call it again to continue with the rest. */
  readonly signal?: AbortSignal
  /** Called after each batch with the number moved so far. */
  readonly onProgress?: (moved: number) => void
}

/** The result of reprocessing. */
export interface Reprocessed {
  /** How many items were moved. */
  readonly moved: number
  /** Runs that had ended, and were opened again. */
  readonly reopened: readonly string[]
  /** Whether the signal stopped it. Call it again to continue with the rest. */
  readonly isStopped: boolean
}

/** The parts of a store that this works with. */
export interface ReprocessStore extends Pick<TaskReader, 'count'>, Pick<LaneControl, 'lanes'> {
  /** The runs of the store. */
  readonly runs: Pick<RunStore, 'get' | 'list' | 'reprocess'>
  /** The store's clock. */
  now(): Promise<number>
}

const BATCH = 500

/** Plans to reprocess dead items. */
export async function planReprocess(store: Store, selection: ReprocessSelection): Promise<ReprocessPlan> {
  const contract = contractOf(store)
  const { filter, stages } = await targetOf(contract, selection)
  const { stage, run: key, errorCode } = filter
  const kind = itemKind(filter.pipeline)
  const lanes = await contract.lanes({ kind, ...(key !== undefined && { key }) })
  const names = new Set(lanes.map(({ category }) => category))
  const byStage = []
  for (const category of [...names].filter(name => stage === undefined || name === stage)) {
    const { dead, waiting } = await contract.count({ kind, category, key, errorCode })
    const moved = { stage: category, dead, waiting: selection.as === undefined ? 0 : waiting }
    if (moved.dead + moved.waiting > 0) byStage.push(moved)
  }
  const missing = byStage.map(({ stage }) => stage).filter(name => !stages.includes(name))
  return {
    count: byStage.reduce((sum, { dead, waiting }) => sum + dead + waiting, 0),
    byStage,
    missing: selection.as === undefined ? missing : [],
  }
}

/**
 * Gives dead items fresh attempts at the stage where they died, with the value that they had there, and opens their
 * runs again. Any process that works on the pipeline runs them, with its current code.
 *
 * ```ts
 * await reprocess(store, { run: 'enrich-1', stage: 'llm_call' }, { who: 'ada', why: 'the prompt is fixed' })
 * ```
 */
export async function reprocess(
  store: Store,
  selection: ReprocessSelection,
  { who, why, signal, onProgress }: ReprocessRunOptions,
): Promise<Reprocessed> {
  const contract = contractOf(store)
  const { missing } = await planReprocess(contract, selection)
  if (missing.length > 0) {
    throw new OptionError(
      'as',
      `The pipeline has no stage ${missing.map(quoted).join(', ')} any more. Say with 'as' where these items go on.`,
    )
  }
  const { filter } = await targetOf(contract, selection)
  const by = { who, why }
  const as = selection.as === undefined ? {} : { as: selection.as }
  // Items that die again meanwhile stay where they are.
  const diedUntil = await contract.now()
  const reopened = new Set<string>()
  let all = 0
  while (!signal?.aborted) {
    const batch = await contract.runs.reprocess({ ...filter, diedUntil }, { limit: BATCH, by, ...as })
    if (batch.moved === 0) return { moved: all, reopened: [...reopened], isStopped: false }
    all += batch.moved
    for (const run of batch.reopened) reopened.add(run)
    onProgress?.(all)
  }
  return { moved: all, reopened: [...reopened], isStopped: true }
}

/** Refuses a stage that neither the run nor the newest run of its pipeline has. */
async function checkTarget(runs: Pick<RunStore, 'list'>, { pipeline, stages }: RunRecord, as: string): Promise<void> {
  if (stages.includes(as)) return
  const [newest] = (await runs.list({ pipeline }, { limit: 1 })).items
  if (newest?.stages.includes(as)) return
  const known = [...new Set([...stages, ...(newest?.stages ?? [])])].join(', ')
  throw new OptionError(
    'as',
    `The pipeline has no stage ${quoted(as)}. Its stages: ${known}. If your code has it, start a worker with that code, or resume the run with it, and try again.`,
  )
}

/** The store's filter, and the stages of the pipeline as of its newest run. */
async function targetOf(
  { runs }: ReprocessStore,
  selection: ReprocessSelection,
): Promise<{ readonly filter: ReprocessFilter; readonly stages: readonly string[] }> {
  const { stage, errorCode, as } = selection
  if (as !== undefined && stage === undefined)
    throw new OptionError('stage', "With 'as', name the stage that the items are in now.")
  const [newest] =
    'run' in selection
      ? [await runs.get(selection.run)]
      : (await runs.list({ pipeline: selection.pipeline }, { limit: 1 })).items
  if (newest === undefined) {
    throw 'run' in selection
      ? new OptionError('run', `There is no run ${quoted(selection.run)}.`)
      : new OptionError('pipeline', `There is no run of a pipeline ${quoted(selection.pipeline)}.`)
  }
  if (as !== undefined) await checkTarget(runs, newest, as)
  const filter = {
    pipeline: newest.pipeline,
    ...('run' in selection && { run: selection.run }),
    ...(stage !== undefined && { stage }),
    ...(errorCode !== undefined && { errorCode }),
  }
  return { filter, stages: newest.stages }
}
