import type { By } from '../contract/ledger.js'
import type { NewTask } from '../contract/task.js'
import type { Item, TaskPort, UnfinishedTask } from '../port/task-port.js'
import type { ArrangedAs, Arrangement } from '../rules/arrange.js'
import type { TaskPlace } from '../rules/cursor.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import type { EndByHand } from '../rules/operator-acts.js'
import { mayBeItem } from '../rules/runs/items.js'
import { arrange } from './arrange.js'
import { finish, remove, withdraw } from './end-by-hand.js'
import { enqueue } from './enqueue.js'
import { cancel, deadAmong, discard, edit, expire, redrive } from './operators.js'
import type { SqliteParts } from './port.js'

/** The primitives of tasks on SQLite. */
export class SqliteTaskPort implements TaskPort {
  readonly #parts: SqliteParts

  constructor(parts: SqliteParts) {
    this.#parts = parts
  }

  enqueue(tasks: readonly NewTask[], now: number): boolean[] {
    const { statements, lanes, makeId } = this.#parts
    return enqueue(statements, lanes, tasks, now, makeId).map(({ isNew }) => isNew)
  }

  redrive(ids: readonly string[], by: By, now: number, part?: PartOfOperation): string[] {
    const { statements } = this.#parts
    return redrive(statements, deadAmong(statements, ids, part), by, now, part?.operation)
  }

  discard(ids: readonly string[], by: By, now: number, part?: PartOfOperation): string[] {
    return discard(this.#parts.statements, ids, { why: '', ...by }, now, part)
  }

  cancel(ids: readonly string[], by: By | undefined, now: number): string[] {
    return cancel(this.#parts.statements, ids, by, now)
  }

  withdraw(ids: readonly string[], now: number): void {
    withdraw(this.#parts.statements, ids, now)
  }

  finish(ids: readonly string[], end: EndByHand, by: By, now: number): string[] {
    return finish(this.#parts.statements, ids, end, by, now)
  }

  remove(ids: readonly string[], now: number): string[] {
    return remove(this.#parts.statements, ids, now)
  }

  expire(tasks: readonly TaskPlace[], now: number): string[] {
    return expire(this.#parts.statements, tasks, now)
  }

  arrange(tasks: readonly Arrangement[], as: ArrangedAs, by: By, now: number, operation: string | undefined): string[] {
    return arrange(this.#parts.statements, tasks, as, by, now, operation)
  }

  edit(id: string, payload: string, by: By, now: number): boolean {
    return edit(this.#parts.statements, id, payload, by, now)
  }

  unfinished(ids: readonly string[]): UnfinishedTask[] {
    return ids.flatMap(id => {
      const { running, begun } = this.#parts.statements.unfinished.get(id) ?? {}
      return running === undefined ? [] : [{ id, isRunning: running === 1, hasBegun: begun === 1 }]
    })
  }

  itemsOf(ids: readonly string[]): ReadonlyMap<string, Item> {
    const items = ids.filter(mayBeItem).flatMap((id): [string, Item][] => {
      const item = this.#parts.statements.item.get(id)
      return item === undefined ? [] : [[id, { id, ...item }]]
    })
    return new Map(items)
  }
}
