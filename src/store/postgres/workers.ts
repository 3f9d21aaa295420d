import type { LiveNotes } from '../contract/attempt-notes.js'
import type { Beat, Heartbeat } from '../contract/claim.js'
import type { WorkerRecord } from '../contract/worker-store.js'
import { answerOf, type Database, type Sql, type StoreVersions, wholeMs } from './database.js'
import type { Holdings } from './holdings.js'
import type { Signals } from './signals.js'
import { type Claimed, claimedBy, tokenOf } from './token.js'

/** Keeps the leases of workers. */
export class Workers {
  readonly #database: Database
  readonly #signals: Signals
  readonly #holdings: Holdings

  constructor(database: Database, signals: Signals, holdings: Holdings) {
    this.#database = database
    this.#signals = signals
    this.#holdings = holdings
  }

  async heartbeat({ worker, leaseMs, ...report }: Beat): Promise<Heartbeat> {
    const { tokens = [], asOf = 0 } = this.#holdings.get(worker) ?? {}
    const known = new Set([...tokens].map(token => claimedBy(token).claim))
    const values = [worker, wholeMs(leaseMs), [...known], asOf, JSON.stringify(report), this.#database.at]
    const beat = JSON.parse(String(await this.#database.call('heartbeat', values))) as HeartbeatAnswer
    await this.#database.refuseNewer(beat)
    if (beat.rescued > 0) this.#signals.ring()
    return { cancelled: beat.cancelled.map(tokenOf), rescued: beat.rescued }
  }

  async cancelled(worker: string): Promise<string[]> {
    const answer = (await this.#database.call('cancelled', [worker])) as readonly Claimed[]
    return answer.map(tokenOf)
  }

  async leave(worker: string): Promise<void> {
    const count = await this.#database.call('leave', [worker, this.#database.at])
    this.#holdings.left(worker)
    if (Number(count) > 0) this.#signals.ring()
  }
}

/** The workers whose lease has not expired. */
export async function liveWorkers({ query, at }: Sql): Promise<WorkerRecord[]> {
  const answer = answerOf(await query(LIVE, [at]))
  return (JSON.parse(String(answer)) as readonly WorkerRow[]).map(workerRecord)
}

const LIVE = /* sql */ `
  SELECT coalesce(json_agg(worker ORDER BY id), '[]')::text AS answer FROM redrive.worker
  WHERE until > redrive.now_ms($1)`

interface WorkerRow {
  readonly id: string
  readonly until: number
  readonly since: number | null
  readonly beat_at: number | null
  readonly release: string | null
  readonly kinds: readonly string[] | null
  readonly categories: readonly string[] | null
  readonly host: string | null
  readonly grouping: string | null
  readonly overruns: readonly string[] | null
  readonly paused: boolean
  readonly notes: Readonly<Record<string, LiveNotes>> | null
}

function workerRecord({
  id,
  since,
  beat_at: beatAt,
  until,
  release,
  kinds,
  categories,
  host,
  grouping,
  overruns,
  paused,
  notes,
}: WorkerRow): WorkerRecord {
  return {
    name: id,
    since: since ?? undefined,
    beatAt: beatAt ?? undefined,
    until,
    release: release ?? undefined,
    kinds: kinds ?? undefined,
    categories: categories ?? undefined,
    host: host ?? undefined,
    grouping: grouping ?? undefined,
    overruns: overruns ?? undefined,
    ...(paused && { isPaused: true }),
    notes: notes ?? undefined,
  }
}

interface HeartbeatAnswer extends StoreVersions {
  readonly cancelled: readonly Claimed[]
  readonly rescued: number
}
