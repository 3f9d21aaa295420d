import { openPostgres, type PostgresStore, type PostgresTransaction } from 'redrive/postgres'
import { type TaskContext, TaskQueue } from 'redrive/task'
import type { Order, Shop } from './shop.js'
import { chargeCard, sendReceipt } from './tasks.js'

/** A shop in PostgreSQL. A transaction may be repeated after a conflict, so its function does nothing but queries. */
export class PostgresShop implements Shop {
  readonly store: PostgresStore
  readonly #queue: TaskQueue

  static async open(url: string): Promise<PostgresShop> {
    const store = await openPostgres(url)
    await store.transaction(tx =>
      tx.query(`
        CREATE TABLE IF NOT EXISTS orders (
          id int PRIMARY KEY,
          cents int NOT NULL CHECK (cents > 0),
          status text NOT NULL DEFAULT 'placed',
          charge text
        )`),
    )
    return new PostgresShop(store)
  }

  constructor(store: PostgresStore) {
    this.store = store
    this.#queue = new TaskQueue(store)
  }

  async place({ id, cents }: Order): Promise<void> {
    const charge = await this.#queue.prepare(chargeCard, { order: id, cents }, { id: `charge-${id}` })
    await this.store.transaction(async tx => {
      await this.store.enqueueIn(tx, [charge])
      await tx.query('INSERT INTO orders (id, cents) VALUES ($1, $2)', [id, cents])
    })
  }

  async markPaid(order: number, charge: string, task: TaskContext): Promise<void> {
    const receipt = await this.#queue.prepare(sendReceipt, { order }, { id: `receipt-${order}` })
    await task.once(`paid-${order}`, async (tx: PostgresTransaction) => {
      await tx.query("UPDATE orders SET status = 'paid', charge = $1 WHERE id = $2", [charge, order])
      await this.store.enqueueIn(tx, [receipt])
    })
  }

  async count(): Promise<Record<string, number>> {
    const sql = 'SELECT status, count(*)::int AS count FROM orders GROUP BY status'
    const { rows } = await this.store.transaction(tx => tx.query(sql))
    return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
  }

  close(): Promise<void> {
    return this.store.close()
  }
}
