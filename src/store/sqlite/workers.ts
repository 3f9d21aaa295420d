import { afterLoss, afterSettlement } from '../after-settlement.js'
import type { Beat, Heartbeat } from '../store.js'
import { LaneBook } from './lane-book.js'
import { end, standingOf } from './settle.js'
import type { Statements } from './statements.js'

/** Renews a worker's lease, and rescues the tasks of workers whose lease has expired. Within a transaction. */
export function heartbeat(statements: Statements, { worker, leaseMs }: Beat, now: number): Heartbeat {
  statements.lease.run({ worker, until: now + leaseMs })
  const book = new LaneBook(statements)
  let rescued = 0
  for (const dead of statements.expired.all(now)) {
    for (const row of statements.runningOf.all(dead)) {
      rescued++
      const claim = { worker: dead, startedAt: row.ran_from ?? now }
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
