import type { Port } from '../port/steps.js'
import type { AuditPort, ClockPort } from '../port/task-port.js'
import { SqliteBatchPort } from './batch-port.js'
import { SqliteBudgetPort } from './budget-port.js'
import type { Connection } from './driver.js'
import { SqliteGroupPort } from './groups.js'
import type { LaneIds } from './lane-ids.js'
import { SqliteLanePort } from './lane-port.js'
import { SqliteOperationPort } from './operations.js'
import { SqliteReads } from './reads.js'
import { SqliteRecordPort } from './record-port.js'
import { SqliteRunPort } from './runs.js'
import { operationStatementsOf } from './statements/operations.js'
import { recordStatementsOf } from './statements/record-port.js'
import type { RunStatements } from './statements/runs.js'
import type { Statements } from './statements.js'
import { SqliteStepPort } from './steps.js'
import { SqliteTaskPort } from './task-port.js'
import { SqliteUniquePort } from './unique-port.js'

/** The parts of a store that its primitives work with. */
export interface SqliteParts {
  readonly db: Connection
  readonly path: string
  readonly statements: Statements
  readonly runs: RunStatements
  readonly lanes: LaneIds
  readonly makeId: (now: number) => string
  readonly now: () => number
}

/** The primitives of a SQLite store. There is one writer at a time, so what was read is current. */
export function sqlitePort(parts: SqliteParts): Port {
  return {
    clock: new SqliteClock(parts),
    audit: new SqliteAuditPort(parts),
    tasks: new SqliteTaskPort(parts),
    steps: new SqliteStepPort(parts),
    unique: new SqliteUniquePort(parts),
    records: new SqliteRecordPort(recordStatementsOf(parts.db)),
    lanes: new SqliteLanePort(parts),
    budgets: new SqliteBudgetPort(parts),
    runs: new SqliteRunPort(parts),
    batches: new SqliteBatchPort(parts),
    operations: new SqliteOperationPort(parts, operationStatementsOf(parts.db)),
    reads: new SqliteReads(parts),
    groups: new SqliteGroupPort(parts),
  }
}

class SqliteClock implements ClockPort {
  readonly #now: () => number

  constructor({ now }: SqliteParts) {
    this.#now = now
  }

  now(): number {
    return this.#now()
  }
}

class SqliteAuditPort implements AuditPort {
  readonly #statements: Statements

  constructor({ statements }: SqliteParts) {
    this.#statements = statements
  }

  append(record: string, now: number): void {
    this.#statements.appendAudit.run(now, record)
  }
}
