import { quoted } from '../../policy/internal.js'
import { StoreBusyError } from '../contract/errors.js'
import type { Database } from './database.js'

/** Keeps batches from waiting for tasks that other transactions have locked. */
export class LockedTasks {
  readonly #database: Database
  /** Tasks that were locked when a batch had them. */
  readonly #suspects = new Set<string>()

  constructor(database: Database) {
    this.#database = database
  }

  /**
   * Sends a batch. `send` leaves out the tasks that are locked, each with the error that names its holder. Whether any is
   * locked is asked only when a batch has waited for too long: asking costs as much as sending.
   */
  async sendAround<Item extends { readonly id: string }, Sent>(
    items: readonly Item[],
    send: (items: readonly Item[], locked: ReadonlyMap<string, Error>) => Promise<Sent>,
  ): Promise<Sent> {
    let locked = await this.#among(items.filter(({ id }) => this.#suspects.has(id)))
    try {
      return await send(items, locked)
    } catch (failure) {
      if (!(failure instanceof StoreBusyError)) throw failure
      locked = await this.#among(items)
      if (locked.size === 0) throw failure
      return send(items, locked)
    }
  }

  async #among(items: readonly { readonly id: string }[]): Promise<ReadonlyMap<string, Error>> {
    if (items.length === 0) return new Map()
    const ids = items.map(({ id }) => id)
    const rows = (await this.#database.call('locked_tasks', [ids])) as readonly LockedTask[]
    for (const id of ids) this.#suspects.delete(id)
    for (const { id } of rows) this.#suspects.add(id)
    return new Map(rows.map(({ id, holder }) => [id, busy(id, holder)]))
  }
}

interface LockedTask {
  readonly id: string
  /** `null` if its transaction is over by now, or several hold it. */
  readonly holder: string | null
}

function busy(id: string, holder: string | null): Error {
  return new StoreBusyError(`The task ${quoted(id)}`, { holder: holder ?? undefined })
}
