/** The event that a shop publishes for each order. Both sides import this file. */
export interface OrderPlaced {
  readonly order: number
  readonly product: string
  readonly quantity: number
}

/** The queue of the service that reserves stock. */
export const QUEUE = 'stock'

/** The queues, with the type of event that each takes. Both sides declare them, so that either may start first. */
export const TOPOLOGY = { [QUEUE]: 'order.placed' }
