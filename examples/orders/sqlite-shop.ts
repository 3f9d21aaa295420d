import type { Database } from 'better-sqlite3'
import { openSqlite, type SqliteStore } from 'redrive/sqlite'
import { type TaskContext, TaskQueue } from 'redrive/task'
import type { Order, Shop } from './shop.js'
import { chargeCard, sendReceipt } from './tasks.js'

/** A shop in a file of SQLite's. A transaction is synchronous, so tasks are prepared before it begins. */
export class SqliteShop implements Shop {
  readonly store: SqliteStore
  readonly #queue: TaskQueue

  static async open(path: string): Promise<SqliteShop> {
    const store = await openSqlite(path)
    await store.transaction(db =>
      db.exec(`
        CREATE TABLE IF NOT EXISTS orders (
          id INTEGER PRIMARY KEY,
          cents INTEGER NOT NULL CHECK (cents > 0),
          status TEXT NOT NULL DEFAULT 'placed',
          charge TEXT
        )`),
    )
    return new SqliteShop(store)
  }

  constructor(store: SqliteStore) {
    this.store = store
    this.#queue = new TaskQueue(store)
  }

  async place({ id, cents }: Order): Promise<void> {
    const charge = await this.#queue.prepare(chargeCard, { order: id, cents }, { id: `charge-${id}` })
    await this.store.transaction(db => {
      this.store.enqueueIn(db, [charge])
      db.prepare('INSERT INTO orders (id, cents) VALUES (?, ?)').run(id, cents)
    })
  }

  async markPaid(order: number, charge: string, task: TaskContext): Promise<void> {
    const receipt = await this.#queue.prepare(sendReceipt, { order }, { id: `receipt-${order}` })
    await task.once(`paid-${order}`, (db: Database) => {
      db.prepare("UPDATE orders SET status = 'paid', charge = ? WHERE id = ?").run(charge, order)
      this.store.enqueueIn(db, [receipt])
    })
  }

  async count(): Promise<Record<string, number>> {
    const sql = 'SELECT status, count(*) AS count FROM orders GROUP BY status'
    const rows = await this.store.transaction(db => db.prepare<[], { status: string; count: number }>(sql).all())
    return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
  }

  close(): Promise<void> {
    return this.store.close()
  }
}
