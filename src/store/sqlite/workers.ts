import type { LiveNotes } from '../contract/attempt-notes.js'
import type { Beat, Heartbeat } from '../contract/claim.js'
import type { WorkerRecord } from '../contract/worker-store.js'
import { afterLoss, afterSettlement } from '../rules/after-settlement.js'
import { isHeld } from '../rules/lease.js'
import { notesOf } from '../rules/notes-of.js'
import { LaneBook } from './lane-book.js'
import { end, standingOf } from './settle.js'
import type { WorkerRow } from './statements/workers.js'
import type { Statements } from './statements.js'

/** Renews a worker's lease, and rescues the tasks of workers whose lease has expired. Within a transaction. */
export function heartbeat(statements: Statements, beat: Beat, now: number): Heartbeat {
  const { worker, leaseMs, release = null, kinds, categories, host = null, grouping = null, overruns, notes } = beat
  const paused = beat.isPaused ? 1 : 0
  statements.lease.run({ worker, now: Math.ceil(now), leaseMs: Math.ceil(leaseMs) })
  const lists = { kinds: json(kinds), categories: json(categories), overruns: json(overruns), notes: json(notes) }
  statements.report.run({ worker, release, ...lists, paused, host, grouping, now })
  const book = new LaneBook(statements)
  let rescued = 0
  statements.bound.run({ now: Math.ceil(now) })
  for (const dead of statements.expired.all(now)) {
    const report = statements.reportOf.get(dead)
    const release = report?.release ?? undefined
    const notes = liveNotes(report?.notes ?? null) ?? {}
    for (const row of statements.runningOf.all(dead)) {
      rescued++
      const { kind = '' } = statements.lane.get(row.lane) ?? {}
      const startedAt = row.ran_from ?? now
      const claim = { kind, worker: dead, startedAt, release, notes: notesOf(notes, row.id, startedAt) }
      end(statements, book, row, afterLoss(standingOf(row), claim, now), now)
    }
    statements.removeWorker.run(dead)
  }
  book.write()
  return { cancelled: statements.cancelledOf.all(worker), rescued }
}

/** Hands back the tasks of a worker, uncounted, and forgets it. Returns their number. Within a transaction. */
export function leave(statements: Statements, worker: string, now: number): number {
  const book = new LaneBook(statements)
  const rows = statements.runningOf.all(worker)
  for (const row of rows)
    end(statements, book, row, afterSettlement(standingOf(row), { type: 'released' }, undefined, now), now)
  statements.removeWorker.run(worker)
  book.write()
  return rows.length
}

/** The workers whose lease has not expired. */
export function liveWorkers(statements: Statements, now: number): WorkerRecord[] {
  const live = statements.workers
    .all(now)
    .filter(({ until, lease_ms }) => isHeld({ until, leaseMs: lease_ms ?? undefined }, now))
  return live.map(row => workerRecord(row, now))
}

function workerRecord(row: WorkerRow, now: number): WorkerRecord {
  const {
    id,
    since,
    beat_at: beatAt,
    until,
    lease_ms: leaseMs,
    release,
    kinds,
    categories,
    host,
    grouping,
    overruns,
    paused,
    notes,
  } = row
  return {
    name: id,
    since: since ?? undefined,
    // The clock may have been set back since.
    beatAt: beatAt === null ? undefined : Math.min(beatAt, now),
    until: Math.min(until, now + (leaseMs ?? Infinity)),
    release: release ?? undefined,
    kinds: names(kinds),
    categories: names(categories),
    ...(paused === 1 && { isPaused: true }),
    host: host ?? undefined,
    grouping: grouping ?? undefined,
    overruns: names(overruns),
    notes: liveNotes(notes),
  }
}

function json(value: object | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value)
}

function names(json: string | null): readonly string[] | undefined {
  return json === null ? undefined : (JSON.parse(json) as readonly string[])
}

function liveNotes(json: string | null): Readonly<Record<string, LiveNotes>> | undefined {
  return json === null ? undefined : (JSON.parse(json) as Readonly<Record<string, LiveNotes>>)
}
