import type { By, Store } from '../store/index.js'
import type { SharedLimits } from '../store/internal.js'
import {
  contractOf,
  itemKind,
  type LaneControl,
  type LaneRuleReader,
  type LimitRule,
  type Rate,
  type RunRecord,
} from '../store/internal.js'

type LaneReader = Pick<LaneControl, 'lanes'> & LaneRuleReader

/** A stage of a pipeline, in all of its runs. */
export interface StageName {
  /** The name of the pipeline. */
  readonly pipeline: string
  /** The name of the stage. */
  readonly stage: string
}

/** The rates of a stage that hold now, by bucket. */
export async function ratesOf(store: LaneReader, stage: StageName): Promise<Readonly<Record<string, Rate>>> {
  return (await limitsOf(store, stage)).rates ?? {}
}

/** The rates of a run's stages that hold now, by stage and bucket. Stages without rates are left out. */
export async function ratesOfRun(
  store: Pick<LaneControl, 'lanes'>,
  { id, pipeline, stages }: Pick<RunRecord, 'id' | 'pipeline' | 'stages'>,
): Promise<Readonly<Record<string, Readonly<Record<string, Rate>>>>> {
  const lanes = await store.lanes({ kind: itemKind(pipeline), key: id })
  const byStage = stages.map(stage => {
    const lane = lanes.find(({ category }) => category === stage)
    return [stage, lane?.shared?.limits.rates ?? {}] as const
  })
  return Object.fromEntries(byStage.filter(([, rates]) => Object.keys(rates).length > 0))
}

/**
 * Sets how fast a stage starts items, in all runs of its pipeline and on all machines, at once. The rates hold until others
 * are set, or until code that declares other ones than before works on the pipeline. Without any, nothing limits the stage.
 *
 * ```ts
 * await setRates(store, { pipeline: 'enrich', stage: 'llm_call' }, { requests: { perSecond: 5 } }, { who: 'ada' })
 * ```
 */
export async function setRates(
  store: Store,
  stage: StageName,
  rates: Readonly<Record<string, Rate>>,
  by: By,
): Promise<void> {
  const contract = contractOf(store)
  await contract.limit(lanesOf(stage), { ...(await limitsOf(contract, stage)), rates }, by)
}

/** The limits that the lanes of a stage share, or those that its first lane will share. */
async function limitsOf(store: LaneReader, stage: StageName): Promise<SharedLimits> {
  const [lane] = await store.lanes(lanesOf(stage))
  if (lane !== undefined) return lane.shared?.limits ?? { isShared: true }
  const { limits } = await store.laneRules(lanesOf(stage))
  const shared = limits.findLast((rule): rule is SharedRule => 'isShared' in rule.limits)
  return shared?.limits ?? { isShared: true }
}

type SharedRule = LimitRule & { readonly limits: SharedLimits }

function lanesOf({ pipeline, stage }: StageName) {
  return { kind: itemKind(pipeline), category: stage }
}
