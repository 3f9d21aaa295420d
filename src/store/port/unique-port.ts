import type { TwinRule } from '../contract/operation-store.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import type { Retaken } from '../rules/unique-keys.js'

/** The primitives of unique keys, beside `enqueue`, which takes them. */
export interface UniquePort {
  /**
   * Gives those dead tasks a key that were enqueued with one until they end, and does to a twin that lives what the rule says;
   * as part of an operation, those of its set. Tasks without such a key are absent.
   */
  retake(ids: readonly string[], twin: TwinRule, now: number, part?: PartOfOperation): readonly Retaken[]
  /** Makes tasks that wait wait for the end of their twins. */
  queue(ids: readonly string[]): void
  /** Gives the keys of tasks back that are not to have them after all. */
  release(ids: readonly string[], now: number): void
  /** The task that has a key; `undefined` if none has. */
  holder(kind: string, key: string, now: number): string | undefined
  /** The ids of the tasks that were enqueued with a key, of whichever kind. */
  named(key: string): readonly string[]
  /** Those dead tasks whose twin lives: the id of the twin, by the task's. */
  twins(ids: readonly string[], now: number): ReadonlyMap<string, string>
}
