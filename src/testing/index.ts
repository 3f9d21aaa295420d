export { busConformance } from './bus-conformance/bus-conformance.js'
export type { BusUnderTest } from './bus-conformance/harness.js'
export { type FakeClock, fakeClock } from './fake-clock.js'
export {
  type ConformanceCase,
  type IdempotencyStoreUnderTest,
  idempotencyStoreConformance,
} from './idempotency-store-conformance.js'
export type { StoreUnderTest } from './store-conformance/harness.js'
export { checkInvariants } from './store-conformance/invariants.js'
export { type StoreModelTestOptions, storeModelTest } from './store-conformance/model-test.js'
export { storeConformance } from './store-conformance/store-conformance.js'
