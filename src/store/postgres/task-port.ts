import type { By } from '../contract/ledger.js'
import type { NewTask } from '../contract/task.js'
import type { Promised } from '../port/steps.js'
import type { Item, TaskPort, UnfinishedTask } from '../port/task-port.js'
import type { ArrangedAs, Arrangement } from '../rules/arrange.js'
import type { TaskPlace } from '../rules/cursor.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import type { EndByHand } from '../rules/operator-acts.js'
import { mayBeItem } from '../rules/runs/items.js'
import { State } from '../rules/task-state.js'
import type { Sql } from './database.js'
import type { Enqueues } from './enqueue.js'
import { byValues } from './text.js'

/** The primitives of tasks on PostgreSQL. Its functions read the clock by themselves. */
export class PostgresTaskPort implements Promised<TaskPort> {
  readonly #sql: Sql
  readonly #enqueues: Enqueues

  constructor(sql: Sql, enqueues: Enqueues) {
    this.#sql = sql
    this.#enqueues = enqueues
  }

  async enqueue(tasks: readonly NewTask[]): Promise<boolean[]> {
    return (await this.#enqueues.enqueueWith(this.#sql.call, tasks)).map(({ isNew }) => isNew)
  }

  async redrive(ids: readonly string[], by: By, _: number, part?: PartOfOperation): Promise<string[]> {
    return inOrder(ids, await this.#sql.call('redrive', this.#deadValues(ids, by, part)))
  }

  async discard(ids: readonly string[], by: By, _: number, part?: PartOfOperation): Promise<string[]> {
    return inOrder(ids, await this.#sql.call('discard', this.#deadValues(ids, by, part)))
  }

  async cancel(ids: readonly string[], by: By | undefined): Promise<string[]> {
    return inOrder(ids, await this.#sql.call('cancel', [ids, ...byValues(by), this.#sql.at]))
  }

  async withdraw(ids: readonly string[]): Promise<void> {
    await this.#sql.call('withdraw', [ids, this.#sql.at])
  }

  async finish(ids: readonly string[], end: EndByHand, by: By): Promise<string[]> {
    const result = end.type === 'succeeded' ? (end.result ?? null) : null
    return inOrder(ids, await this.#sql.call('finish', [ids, State[end.type], result, ...byValues(by), this.#sql.at]))
  }

  async remove(ids: readonly string[]): Promise<string[]> {
    return inOrder(ids, await this.#sql.call('remove', [ids]))
  }

  async expire(tasks: readonly TaskPlace[]): Promise<string[]> {
    const ids = tasks.map(({ id }) => id)
    const times = tasks.map(({ changedAt }) => changedAt)
    return inOrder(ids, await this.#sql.call('expire', [ids, times, this.#sql.at]))
  }

  async arrange(
    tasks: readonly Arrangement[],
    as: ArrangedAs,
    by: By,
    _: number,
    operation: string | undefined,
  ): Promise<string[]> {
    if (tasks.length === 0) return []
    const ids = tasks.map(({ id }) => id)
    const due = tasks.map(({ runAt }) => (runAt === undefined ? null : Math.ceil(runAt)))
    const priorities = tasks.map(({ priority }) => priority ?? null)
    const starts = tasks.map(({ startedAt }) => startedAt ?? null)
    const act = [as, ...byValues(by), operation ?? null]
    return inOrder(ids, await this.#sql.call('arrange', [ids, due, priorities, starts, ...act, this.#sql.at]))
  }

  async edit(id: string, payload: string, by: By): Promise<boolean> {
    return (await this.#sql.call('edit', [id, payload, ...byValues(by), this.#sql.at])) === true
  }

  async unfinished(ids: readonly string[]): Promise<UnfinishedTask[]> {
    return ids.length === 0 ? [] : ((await this.#sql.call('unfinished_tasks', [ids])) as UnfinishedTask[])
  }

  async itemsOf(ids: readonly string[]): Promise<ReadonlyMap<string, Item>> {
    const few = ids.filter(mayBeItem)
    if (few.length === 0) return new Map()
    const rows = (await this.#sql.call('item_runs', [few])) as readonly ItemRow[]
    return new Map(rows.map(({ changed_at: changedAt, ...item }) => [item.id, { ...item, changedAt }]))
  }

  #deadValues(ids: readonly string[], by: By, part: PartOfOperation | undefined): unknown[] {
    return [ids, ...byValues(by), part?.operation ?? null, part?.diedUntil ?? null, this.#sql.at]
  }
}

type ItemRow = Omit<Item, 'changedAt'> & { readonly changed_at: number }

/** The ids that an answer names, in the order in which they were given. */
function inOrder(ids: readonly string[], answer: unknown): string[] {
  const named = new Set(JSON.parse(String(answer)) as string[])
  return [...new Set(ids)].filter(id => named.has(id))
}
