import type { TwinRule } from '../contract/operation-store.js'
import type { UniquePort } from '../port/unique-port.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import { isInPart } from '../rules/operator-acts.js'
import { type LostKey, type Retaken, releaseKey, retakeKeys, twinOf } from '../rules/unique-keys.js'
import type { MemoryTask } from './task.js'
import type { MemoryUniqueKeys } from './unique.js'

/** The primitives of unique keys in memory. */
export class MemoryUniquePort implements UniquePort {
  readonly #keys: MemoryUniqueKeys
  readonly #tasks: ReadonlyMap<string, MemoryTask>

  constructor(keys: MemoryUniqueKeys, tasks: ReadonlyMap<string, MemoryTask>) {
    this.#keys = keys
    this.#tasks = tasks
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
    return [...this.#tasks.values()].flatMap(({ record }) => (record.unique?.key === key ? record.id : []))
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
    return [...new Set(ids)].flatMap(id => {
      const record = this.#tasks.get(id)?.record
      if (record?.status !== 'dead' || record.unique?.while !== 'unfinished' || !isInPart(record, part)) return []
      return [{ id, kind: record.kind, key: record.unique.key }]
    })
  }
}
