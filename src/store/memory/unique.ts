import type { By } from '../contract/ledger.js'
import type { KeyHolder, KeyRow } from '../rules/unique.js'
import type { KeyHost } from '../rules/unique-keys.js'
import type { MemoryTask } from './task.js'

/** What a memory store does to the tasks that have keys. */
export interface KeyedTasks {
  task(id: string): MemoryTask | undefined
  cancel(ids: readonly string[], by: By | undefined, now: number): readonly string[]
  /** Replaces the payload and the due time of a waiting task. */
  postpone(task: MemoryTask, payload: string, dueAt: number, now: number): void
  /** Takes a waiting task out of the queue until its twin has ended. */
  queueBehind(task: MemoryTask): void
  /** Puts it back. */
  free(task: MemoryTask, dueAt: number, now: number): void
}

/** The unique keys of a memory store. */
export class MemoryUniqueKeys implements KeyHost {
  readonly #rows = new Map<string, KeyRow>()
  readonly #tasks: KeyedTasks

  constructor(tasks: KeyedTasks) {
    this.#tasks = tasks
  }

  row(kind: string, key: string): KeyRow | undefined {
    return this.#rows.get(nameOf(kind, key))
  }

  save(kind: string, key: string, row: KeyRow): void {
    this.#rows.set(nameOf(kind, key), row)
  }

  drop(kind: string, key: string): void {
    this.#rows.delete(nameOf(kind, key))
  }

  holder(id: string): (KeyHolder & { readonly since: number }) | undefined {
    const task = this.#tasks.task(id)
    if (task === undefined) return undefined
    const { status, attempts, deferrals, losses, unique, changedAt } = task.record
    const hasBegun = status !== 'waiting' || attempts + deferrals + losses > 0 || task.steps.size > 0
    return { status, hasBegun, scope: unique?.while, since: changedAt }
  }

  cancel(ids: readonly string[], by: By, now: number): void {
    this.#tasks.cancel(ids, by, now)
  }

  postpone(id: string, payload: string, dueAt: number, now: number): void {
    const task = this.#tasks.task(id)
    if (task !== undefined) this.#tasks.postpone(task, payload, dueAt, now)
  }

  queue(id: string): void {
    const task = this.#tasks.task(id)
    if (task !== undefined) this.#tasks.queueBehind(task)
  }

  free(id: string, dueAt: number, now: number): void {
    const task = this.#tasks.task(id)
    if (task !== undefined) this.#tasks.free(task, dueAt, now)
  }

  /** Forgets keys that were taken for a time which is over. */
  prune(now: number): void {
    for (const [name, { until, next }] of this.#rows)
      if (until !== undefined && until <= now && next === undefined) this.#rows.delete(name)
  }
}

/** No kind has such a character in it, since `checkName` lets none pass. */
function nameOf(kind: string, key: string): string {
  return `${kind}\0${key}`
}
