import type { ForgottenSteps, StepRecording, StepRow } from '../contract/step.js'
import type { StepPort } from '../port/step-port.js'
import type { Promised } from '../port/steps.js'
import { Batcher } from './batcher.js'
import { type Database, isOutage, type Sql } from './database.js'
import { claimedBy } from './token.js'

/** Records steps. Concurrent calls share a transaction. */
export class StepRecords {
  readonly #database: Database
  readonly #batcher = new Batcher<StepRecording, boolean>(batch => this.#send(batch), isOutage)

  constructor(database: Database) {
    this.#database = database
  }

  async record(step: StepRecording): Promise<boolean> {
    const [isHeld = false] = await this.#batcher.add([step])
    return isHeld
  }

  /** Resolves when all calls under way have ended. */
  idle(): Promise<void> {
    return this.#batcher.idle()
  }

  async #send(steps: readonly StepRecording[]): Promise<boolean[]> {
    const rows = steps.map(({ id, token, name, isDone, result, state }, n) => {
      const { round, advances } = claimedBy(token)
      return { n, id, round, advances, name, done: isDone, result, state }
    })
    const held = (await this.#database.call('record_steps', [JSON.stringify(rows), this.#database.at])) as number[]
    return steps.map((_, n) => held.includes(n))
  }
}

/** The primitives of steps on PostgreSQL. */
export class PostgresStepPort implements Promised<StepPort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async of(id: string): Promise<StepRow[]> {
    const rows = JSON.parse(String(await this.#sql.call('steps_of', [id]))) as readonly KeptStep[]
    return rows.map(({ name, done, result, state }) => ({ name, isDone: done, result: result ?? undefined, state }))
  }

  async forget(ids: readonly string[], { name, isAndLater }: ForgottenSteps): Promise<number> {
    return Number(await this.#sql.call('forget_steps', [ids, name, isAndLater]))
  }
}

interface KeptStep {
  readonly name: string
  readonly done: boolean
  readonly result: string | null
  readonly state: string
}
