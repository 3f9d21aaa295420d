export { type BusUnderTest, busConformance } from './bus-conformance/index.js'
export { type FakeClock, fakeClock } from './fake-clock.js'
export {
  type ConformanceCase,
  type IdempotencyStoreUnderTest,
  idempotencyStoreConformance,
} from './idempotency-store-conformance.js'
export {
  checkInvariants,
  type StoreModelTestOptions,
  type StoreUnderTest,
  storeConformance,
  storeModelTest,
} from './store-conformance/index.js'
