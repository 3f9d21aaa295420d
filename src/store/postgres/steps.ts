import type { ForgottenSteps, StepRecording, StepRow } from '../contract/step.js'
import type { StepPort } from '../port/step-port.js'
import type { Promised } from '../port/steps.js'
import { Batcher } from './batcher.js'
import { type Database, isOutage, type Sql } from './database.js'
import type { LockedTasks } from './locked-tasks.js'
import { claimedBy } from './token.js'

/** Records steps. Concurrent calls share a transaction, save those whose tasks other transactions have locked. */
export class StepRecords {
  readonly #database: Database
  readonly #locked: LockedTasks
  readonly #batcher = new Batcher<StepRecording, boolean | Error>(
    batch => this.#locked.sendAround(batch, (steps, locked) => this.#sendFree(steps, locked)),
    isOutage,
  )

  constructor(database: Database, locked: LockedTasks) {
    this.#database = database
    this.#locked = locked
  }

  async record(step: StepRecording): Promise<boolean> {
    const [isHeld = false] = await this.#batcher.add([step])
    if (isHeld instanceof Error) throw isHeld
    return isHeld
  }

  /** Resolves when all calls under way have ended. */
  idle(): Promise<void> {
    return this.#batcher.idle()
  }

  async #sendFree(steps: readonly StepRecording[], locked: ReadonlyMap<string, Error>): Promise<(boolean | Error)[]> {
    const rows = steps.flatMap(({ id, token, name, isDone, result, state }, n) => {
      const { round, advances } = claimedBy(token)
      return locked.has(id) ? [] : [{ n, id, round, advances, name, done: isDone, result, state }]
    })
    const held = rows.length === 0 ? [] : await this.#send(rows)
    return steps.map(({ id }, n) => locked.get(id) ?? held.includes(n))
  }

  /** Returns the numbers of those whose token holds. */
  async #send(rows: readonly object[]): Promise<readonly number[]> {
    return (await this.#database.call('record_steps', [JSON.stringify(rows), this.#database.at])) as number[]
  }
}

/** The primitives of steps on PostgreSQL. */
export class PostgresStepPort implements Promised<StepPort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async of(ids: readonly string[]): Promise<StepRow[][]> {
    const rows = JSON.parse(String(await this.#sql.call('steps_of', [ids]))) as readonly KeptStep[]
    const steps = new Map<string, StepRow[]>(ids.map(id => [id, []]))
    for (const { task, name, done, result, state } of rows)
      steps.get(task)?.push({ name, isDone: done, result: result ?? undefined, state })
    return ids.map(id => steps.get(id) ?? [])
  }

  async forget(ids: readonly string[], { name, isAndLater }: ForgottenSteps): Promise<number> {
    return Number(await this.#sql.call('forget_steps', [ids, name, isAndLater]))
  }
}

interface KeptStep {
  readonly task: string
  readonly name: string
  readonly done: boolean
  readonly result: string | null
  readonly state: string
}
