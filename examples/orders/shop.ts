import type { Store } from 'redrive/store'
import type { TaskContext } from 'redrive/task'

/** An order as a customer places it. */
export interface Order {
  readonly id: number
  readonly cents: number
}

/** The orders of a shop, in the same database as its tasks. */
export interface Shop {
  readonly store: Store
  /** Writes the order and the task that charges its card: both or neither. */
  place(order: Order): Promise<void>
  /** Marks the order as paid and enqueues its receipt: both or neither, and once, however often the task runs. */
  markPaid(order: number, charge: string, task: TaskContext): Promise<void>
  /** The number of orders in each status. */
  count(): Promise<Record<string, number>>
  close(): Promise<void>
}
