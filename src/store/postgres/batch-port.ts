import type { BatchCount } from '../contract/batch-store.js'
import type { TaskStatus } from '../contract/task.js'
import type { BatchPort } from '../port/batch-port.js'
import type { Promised } from '../port/steps.js'
import { memberRange } from '../rules/batches/members.js'
import { statusOf } from '../rules/task-state.js'
import { int4, type Sql } from './database.js'
import { stored } from './text.js'

/** The primitives of batches on PostgreSQL. Its functions find members by the index of ids. */
export class PostgresBatchPort implements Promised<BatchPort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async unfinished(batch: string, from: string): Promise<string | undefined> {
    const [first, end] = memberRange(batch)
    const id = await this.#sql.call('unfinished_member', [from > first ? from : first, end])
    return id === null ? undefined : String(id)
  }

  async members(batch: string, status: TaskStatus | undefined, after: string, limit: number): Promise<string[]> {
    const [first, end] = memberRange(batch)
    const values = [after > first ? after : first, end, status ?? null, int4(limit)]
    return (await this.#sql.call('batch_members', values)) as string[]
  }

  async tally(batch: string): Promise<BatchCount[]> {
    const rows = (await this.#sql.call('batch_tally', [...memberRange(batch)])) as readonly TallyRow[]
    return rows.map(({ state, error_code, ...row }) => {
      return { ...row, status: statusOf(state), errorCode: stored(error_code ?? undefined) }
    })
  }
}

interface TallyRow {
  readonly state: number
  readonly kind: string
  readonly error_code: string | null
  readonly count: number
}
