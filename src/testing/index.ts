export { type FakeClock, fakeClock } from './fake-clock.js'
