export {
  type Bus,
  type Consumer,
  type Delivery,
  type DeliveryHandler,
  type DeliveryOptions,
  type FailedMessage,
  type Finding,
  type FoundQueue,
  failedQueueOf,
  isFailedQueue,
  type Message,
  type NewMessage,
  type QueueStatus,
  type Topology,
} from './bus.js'
export {
  BusClosedError,
  BusForbiddenError,
  BusUnavailableError,
  MessageTooLargeError,
  NoQueueError,
  PublishRefusedError,
  PublishUnconfirmedError,
  TopologyError,
} from './errors.js'
export { MemoryBus } from './memory-bus.js'
export { textOf } from './message.js'
export type { TlsOptions } from './tls-options.js'
