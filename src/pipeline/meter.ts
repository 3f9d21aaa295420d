import type { RunNews } from '../engine/internal.js'
import type { RunRecord } from '../store/internal.js'
import type { Snapshot } from './snapshot.js'

/** The rate is that of the last seconds: a run speeds up and slows down. */
const WINDOW_MS = 10_000

/** Makes snapshots of a run, with its present rate. */
export class Meter {
  #samples: { readonly at: number; readonly ended: number }[] = []
  #retries = 0
  #deferrals = 0

  onSettled({ retries, deferrals }: RunNews): void {
    this.#retries += retries
    this.#deferrals += deferrals
  }

  /** The run as it is on record, at this time of the monotonic clock. */
  snapshot({ id, status, counts, isRead, byStage }: RunRecord, at: number): Snapshot {
    const { waiting, running, ...others } = counts
    const ended = sum(others)
    const perSecond = this.#rate(at, ended)
    const left = waiting + running
    return {
      run: id,
      status,
      counts,
      total: ended + left,
      ended,
      isRead,
      byStage,
      perSecond,
      leftMs: isRead && perSecond > 0 ? (left / perSecond) * 1000 : undefined,
      retries: this.#retries,
      deferrals: this.#deferrals,
    }
  }

  #rate(at: number, ended: number): number {
    this.#samples = [...this.#samples.filter(sample => at - sample.at <= WINDOW_MS), { at, ended }]
    const [first] = this.#samples
    if (first === undefined || at <= first.at) return 0
    return Math.max(0, ((ended - first.ended) * 1000) / (at - first.at))
  }
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((all, count) => all + count, 0)
}
