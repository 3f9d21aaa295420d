export { NatsIdempotencyStore } from './idempotency-store.js'
export { NatsBus } from './nats-bus.js'
export { openNatsIdempotencyStore } from './open-idempotency-store.js'
export { type NatsOptions, openNats } from './open-nats.js'
