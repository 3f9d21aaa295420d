import type { BudgetStop, ItemCounts, RunRecord, RunSettings, RunStatus } from '../store/internal.js'

/** A run as plain JSON: times as ISO 8601 text in UTC, `null` where there is no value. */
export interface RunView {
  /** The id of the run. */
  readonly id: string
  /** The name of the pipeline. */
  readonly pipeline: string
  /** The version of the pipeline's code. */
  readonly version: string
  /** Where it is in its life. */
  readonly status: RunStatus
  /** When it was opened. */
  readonly createdAt: string
  /** When its record last changed. */
  readonly changedAt: string
  /** When it last ended; `null` while it has not. */
  readonly endedAt: string | null
  /** All items taken so far. */
  readonly total: number
  /** Its items by status. */
  readonly counts: ItemCounts
  /** The share of succeeded and skipped items, of those that have succeeded, been skipped or died. */
  readonly successRate: number | null
  /** Its items by stage and status, in the order of the stages. */
  readonly byStage: RunRecord['byStage']
  /** The number of items read from the source, with duplicates. */
  readonly position: number
  /** Items whose id was taken already. They are not part of the total. */
  readonly duplicates: number
  /** Whether the source was read to its end. */
  readonly isRead: boolean
  /** The process that reads the source. */
  readonly reader: string | null
  /** Why the source could not be read on. */
  readonly sourceError: string | null
  /** The figures at the check at which a failure budget stopped it. */
  readonly stop: (Omit<BudgetStop, 'at'> & { readonly at: string }) | null
  /** Its settings, which can be changed while it runs. */
  readonly settings: RunSettings
  /** The stages of its pipeline, in their order. */
  readonly stages: readonly string[]
  /** How often it has ended: more than once if dead items were reprocessed. */
  readonly endings: number
}

/** The view of a run. */
export function runView(run: RunRecord): RunView {
  return {
    id: run.id,
    pipeline: run.pipeline,
    version: run.version,
    status: run.status,
    createdAt: iso(run.createdAt),
    changedAt: iso(run.changedAt),
    endedAt: run.endedAt === undefined ? null : iso(run.endedAt),
    total: totalOf(run.counts),
    counts: run.counts,
    successRate: successRateOf(run.counts),
    byStage: run.byStage,
    position: run.position,
    duplicates: run.duplicates,
    isRead: run.isRead,
    reader: run.reader?.name ?? null,
    sourceError: run.sourceError ?? null,
    stop: run.stop === undefined ? null : { ...run.stop, at: iso(run.stop.at) },
    settings: run.settings,
    stages: run.stages,
    endings: run.endings,
  }
}

/** All items, in whatever state. */
export function totalOf({ waiting, running, succeeded, skipped, dead, cancelled }: ItemCounts): number {
  return waiting + running + succeeded + skipped + dead + cancelled
}

/** A skipped item has not failed; a cancelled one has neither failed nor succeeded. */
function successRateOf({ succeeded, skipped, dead }: ItemCounts): number | null {
  const processed = succeeded + skipped + dead
  return processed === 0 ? null : (succeeded + skipped) / processed
}

function iso(at: number): string {
  return new Date(at).toISOString()
}
