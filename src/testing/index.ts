export { type FakeClock, fakeClock } from './fake-clock.js'
export {
  type ConformanceCase,
  type IdempotencyStoreUnderTest,
  idempotencyStoreConformance,
} from './idempotency-store-conformance.js'
