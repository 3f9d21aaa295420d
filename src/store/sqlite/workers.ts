import type { Beat, Heartbeat } from '../store.js'
import { LaneBook } from './lane-book.js'
import { record, released, waiting, write } from './settle.js'
import type { RunningRow, Statements } from './statements.js'

/** Renews a worker's lease and rescues the tasks of those whose lease has run out. Within a transaction. */
export function heartbeat(statements: Statements, { worker, leaseMs }: Beat, now: number): Heartbeat {
  statements.lease.run({ worker, until: now + leaseMs })
  const book = new LaneBook(statements)
  let rescued = 0
  for (const dead of statements.expired.all(now)) {
    for (const row of statements.runningOf.all(dead)) {
      rescued++
      rescue(statements, book, row, now)
    }
    statements.removeWorker.run(dead)
  }
  book.write()
  return { cancelled: statements.cancelledOf.all(worker), rescued }
}

/** Hands back what a worker has, uncounted, and forgets it. Returns how many tasks that were. Within a transaction. */
export function leave(statements: Statements, worker: string, now: number): number {
  const book = new LaneBook(statements)
  const rows = statements.runningOf.all(worker)
  for (const row of rows) giveBack(statements, book, row, now)
  statements.removeWorker.run(worker)
  book.write()
  return rows.length
}

function giveBack(statements: Statements, book: LaneBook, row: RunningRow, now: number): void {
  write(statements, book, row, released(row, now), now)
}

function rescue(statements: Statements, book: LaneBook, row: RunningRow, now: number): void {
  // It was claimed so that somebody decides on its loss, and had not been started.
  if (row.undecided === 1) return void giveBack(statements, book, row, now)

  const lost = { attempt: row.attempts + 1, startedAt: row.ran_from, endedAt: now, worker: row.worker }
  record(statements, row.seq, row.entries + 1, lost, { type: 'lost' })
  const next = released(row, now)
  next.entries++
  next.attempts++
  next.losses++
  next.undecided = 1
  if (row.cancel_requested === 0) waiting(next, now)
  write(statements, book, row, next, now)
}
