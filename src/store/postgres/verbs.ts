import type { Beat, Claim, ClaimRequest, Heartbeat, Settled, Settlement } from '../contract/claim.js'
import type { StepRecording } from '../contract/step.js'
import type { Retention } from '../contract/store.js'
import type { Enqueued, NewTask } from '../contract/task.js'
import { ENDED_STATUSES, keptMs } from '../rules/retention.js'
import type { StoreVerbs } from '../verbs/base-store.js'
import type { Claims } from './claim.js'
import { type Database, int4, LONG, wholeMs } from './database.js'
import type { Enqueues } from './enqueue.js'
import type { Settlements } from './settle.js'
import type { StepRecords } from './steps.js'
import type { Workers } from './workers.js'

/** The parts of the hot verbs. */
export interface HotParts {
  readonly database: Database
  readonly enqueues: Enqueues
  readonly claims: Claims
  readonly settlements: Settlements
  readonly steps: StepRecords
  readonly workers: Workers
}

/** The hot verbs of a PostgreSQL store. */
export class PostgresVerbs implements StoreVerbs {
  readonly #parts: HotParts

  constructor(parts: HotParts) {
    this.#parts = parts
  }

  async now(): Promise<number> {
    const { database } = this.#parts
    return Number(await database.call('now_ms', [database.at]))
  }

  enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    return this.#parts.enqueues.enqueue(tasks)
  }

  claim(request: ClaimRequest): Promise<Claim> {
    return this.#parts.claims.claim(request)
  }

  settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    return this.#parts.settlements.settle(settlements)
  }

  recordStep(step: StepRecording): Promise<boolean> {
    return this.#parts.steps.record(step)
  }

  async heartbeat(beat: Beat): Promise<Heartbeat> {
    const heartbeat = await this.#parts.workers.heartbeat(beat)
    // Not earlier: two connections that plan at once take turns at the processors.
    this.#parts.settlements.prepare()
    return heartbeat
  }

  cancelled(worker: string): Promise<string[]> {
    return this.#parts.workers.cancelled(worker)
  }

  leave(worker: string): Promise<void> {
    return this.#parts.workers.leave(worker)
  }

  /** Runs go first, in a transaction of their own. */
  async prune(keep: Retention, limit: number): Promise<number> {
    const gone = await this.#pruneRuns(keep, limit)
    const { database } = this.#parts
    const { counts, keysMs, auditMs } = keep
    const age = (ms: number | undefined) => (ms === undefined ? null : wholeMs(ms))
    const ages = ENDED_STATUSES.map(status => age(keptMs(keep, status)))
    const most = counts === undefined ? null : ENDED_STATUSES.map(status => counts[status] ?? null)
    const values = [ages, most, age(keysMs), age(auditMs), int4(limit - gone), database.at]
    return gone + Number(await database.call('prune', values, LONG))
  }

  /** Forgets runs that ended long enough ago. Returns how many items and runs it deleted. */
  async #pruneRuns({ endedMs, deadMs }: Retention, limit: number): Promise<number> {
    if (endedMs === undefined) return 0
    const { database } = this.#parts
    const values = [wholeMs(endedMs), deadMs === undefined ? null : wholeMs(deadMs), int4(limit), database.at]
    return Number(await database.call('prune_runs', values, LONG))
  }
}
