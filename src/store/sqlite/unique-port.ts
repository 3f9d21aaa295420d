import type { TwinRule } from '../contract/operation-store.js'
import type { UniquePort } from '../port/unique-port.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import { type LostKey, type Retaken, releaseKey, retakeKeys, twinOf } from '../rules/unique-keys.js'
import type { SqliteParts } from './port.js'
import type { Statements } from './statements.js'
import { SqliteUniqueKeys } from './unique.js'

/** The primitives of unique keys on SQLite. */
export class SqliteUniquePort implements UniquePort {
  readonly #statements: Statements
  readonly #keys: SqliteUniqueKeys

  constructor({ statements }: SqliteParts) {
    this.#statements = statements
    this.#keys = new SqliteUniqueKeys(statements)
  }

  retake(ids: readonly string[], twin: TwinRule, now: number, part?: PartOfOperation): Retaken[] {
    return retakeKeys(this.#keys, this.#lost(ids, part), twin, now)
  }

  queue(ids: readonly string[]): void {
    for (const id of ids) this.#keys.queue(id)
  }

  release(ids: readonly string[], now: number): void {
    for (const lost of this.#lost(ids)) releaseKey(this.#keys, lost, now)
  }

  holder(kind: string, key: string, now: number): string | undefined {
    return twinOf(this.#keys, { kind, key }, now)
  }

  named(key: string): string[] {
    return this.#statements.named.all(key)
  }

  twins(ids: readonly string[], now: number): ReadonlyMap<string, string> {
    const twins = this.#lost(ids).flatMap(lost => {
      const twin = twinOf(this.#keys, lost, now)
      return twin === undefined ? [] : [[lost.id, twin] as const]
    })
    return new Map(twins)
  }

  /** Those dead tasks that had a key until they ended. */
  #lost(ids: readonly string[], part?: PartOfOperation): LostKey[] {
    const { operation = null, diedUntil = Number.MAX_SAFE_INTEGER } = part ?? {}
    return this.#statements.lostKeys.all({ ids: JSON.stringify([...new Set(ids)]), until: diedUntil, operation })
  }
}
