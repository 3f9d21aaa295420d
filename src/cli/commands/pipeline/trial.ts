import { statSync } from 'node:fs'
import { estimate, readTrial, type TrialEstimate } from '../../../operate/internal.js'
import { jsonl, type ResumableSource, type Snapshot } from '../../../pipeline/index.js'
import { pausingAfter, type Sample, sampledFirst, sampleJsonl } from '../../../pipeline/internal.js'
import type { StoreContract } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { confirm } from '../../terminal/confirm.js'
import type { AnyPipeline } from './load-pipeline.js'
import { estimateText } from './trial-text.js'

/** A trial that a run begins with. */
export interface Trial {
  readonly size: number
  /** Absent where the file cannot be sought: then it is the first lines. */
  readonly sample: Sample | undefined
  readonly source: ResumableSource<unknown>
  /** Lets the source be read on. */
  goOn(): void
}

/** The answer to whether a run should go on after its trial. */
export type TrialAnswer = 'yes' | 'no' | 'unasked'

/** Draws a trial from a file; `undefined` if the file has no more items than that. */
export async function drawTrial(path: string, size: number): Promise<Trial | undefined> {
  const canSeek = statSync(path).isFile()
  const sample = canSeek ? await sampleJsonl(path, size) : undefined
  if (sample !== undefined && sample.total <= size) return undefined
  let goOn = () => {}
  const decision = new Promise<void>(resolve => {
    goOn = resolve
  })
  const source = sample === undefined ? jsonl(path) : sampledFirst(path, sample)
  return { size, sample, source: pausingAfter(source, size, decision), goOn }
}

/** Whether all items of the trial have ended. */
export function isTrialOver({ size }: Trial, { ended }: Snapshot): boolean {
  return ended >= size
}

/** Says what to expect of the whole, and asks whether to go on. */
export async function judgeTrial(
  { console, environment }: CommandContext,
  store: StoreContract,
  run: string,
  trial: Trial,
  { pipeline, yes }: { readonly pipeline: AnyPipeline; readonly yes: boolean | undefined },
): Promise<{ readonly answer: TrialAnswer; readonly estimate: TrialEstimate }> {
  const { items, durationMs } = await readTrial(store, run, trial.size)
  const figures = estimate({ items, durationMs, total: trial.sample?.total, ...slowestRate(pipeline) })
  console.sayRaw(estimateText(figures, trial.sample !== undefined, console))
  const answer = yes ? 'yes' : await confirm(environment, 'Go on with the rest?')
  return { answer, estimate: figures }
}

/** The rate of the stage that lets the fewest items through. A batch takes several items per start. */
function slowestRate({ stages }: AnyPipeline): { readonly perSecond?: number } {
  const rates = stages.flatMap(({ rates, work }) =>
    Object.values(rates).map(({ perSecond }) => perSecond * (work.type === 'batch' ? work.size : 1)),
  )
  return rates.length === 0 ? {} : { perSecond: Math.min(...rates) }
}
