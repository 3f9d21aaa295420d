import type { TwinRule } from '../contract/operation-store.js'
import type { Promised } from '../port/steps.js'
import type { UniquePort } from '../port/unique-port.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import { CONFLICT_OF, type Retaken } from '../rules/unique-keys.js'
import type { Sql } from './database.js'

/** The primitives of unique keys on PostgreSQL. */
export class PostgresUniquePort implements Promised<UniquePort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async retake(ids: readonly string[], twin: TwinRule, _: number, part?: PartOfOperation): Promise<Retaken[]> {
    const values = [ids, CONFLICT_OF[twin], part?.operation ?? null, part?.diedUntil ?? null, this.#sql.at]
    return (await this.#sql.call('retake_keys', values)) as Retaken[]
  }

  async queue(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#sql.call('queue_tasks', [ids])
  }

  async release(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#sql.call('give_back_keys', [ids, this.#sql.at])
  }

  async holder(kind: string, key: string): Promise<string | undefined> {
    const holder = await this.#sql.call('holder_of_key', [kind, key, this.#sql.at])
    return holder === null ? undefined : String(holder)
  }

  async named(key: string): Promise<string[]> {
    return (await this.#sql.call('tasks_with_key', [key])) as string[]
  }

  async twins(ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    if (ids.length === 0) return new Map()
    return new Map((await this.#sql.call('twins_of', [ids, this.#sql.at])) as [string, string][])
  }
}
