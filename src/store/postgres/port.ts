import type { Promised, PromisedPort } from '../port/steps.js'
import type { AuditPort, ClockPort } from '../port/task-port.js'
import { PostgresBatchPort } from './batch-port.js'
import { PostgresBudgetPort } from './budget-port.js'
import type { Sql } from './database.js'
import type { Enqueues } from './enqueue.js'
import { PostgresGroupPort } from './groups.js'
import { PostgresLanePort } from './lane-port.js'
import { PostgresOperationPort } from './operations.js'
import { PostgresReads } from './reads.js'
import { PostgresRecordPort } from './record-port.js'
import { PostgresRunPort } from './runs.js'
import { PostgresStepPort } from './steps.js'
import { PostgresTaskPort } from './task-port.js'
import { PostgresUniquePort } from './unique-port.js'

/** The primitives of a PostgreSQL store, for one transaction. */
export function postgresPort(sql: Sql, enqueues: Enqueues): PromisedPort {
  return {
    clock: new PostgresClock(sql),
    audit: new PostgresAuditPort(sql),
    tasks: new PostgresTaskPort(sql, enqueues),
    steps: new PostgresStepPort(sql),
    unique: new PostgresUniquePort(sql),
    records: new PostgresRecordPort(sql),
    lanes: new PostgresLanePort(sql),
    budgets: new PostgresBudgetPort(sql),
    runs: new PostgresRunPort(sql),
    batches: new PostgresBatchPort(sql),
    operations: new PostgresOperationPort(sql),
    reads: new PostgresReads(sql),
    groups: new PostgresGroupPort(sql),
  }
}

class PostgresClock implements Promised<ClockPort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async now(): Promise<number> {
    return Number(await this.#sql.call('now_ms', [this.#sql.at]))
  }
}

class PostgresAuditPort implements Promised<AuditPort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async append(record: string): Promise<void> {
    await this.#sql.call('append_audit', [JSON.stringify([record]), this.#sql.at])
  }
}
