import { type Clock, retry } from 'redrive'
import { type IdempotencyStore, MemoryIdempotencyStore } from 'redrive/idempotency'
import { type ConformanceCase, type FakeClock, fakeClock, idempotencyStoreConformance } from 'redrive/testing'
import { describe, expectTypeOf, it } from 'vitest'

describe('a fake clock', () => {
  it('is a clock, and can be given wherever one is taken', () => {
    expectTypeOf(fakeClock()).toEqualTypeOf<FakeClock>()
    expectTypeOf<FakeClock>().toExtend<Clock>()
    retry(() => 1, {}, { clock: fakeClock(new Date(0)) })
    new MemoryIdempotencyStore({ clock: fakeClock(0) })
  })

  it('is told how long to go on as durations are written', () => {
    expectTypeOf(fakeClock().advance('1h')).toEqualTypeOf<Promise<void>>()
    fakeClock().advance(250)
    // @ts-expect-error not a duration
    fakeClock().advance('an hour')
  })
})

it('a conformance suite takes what opens a store, at once or later, and has named cases', () => {
  const store = {} as IdempotencyStore
  const pass = async (_ms: number) => {}
  expectTypeOf(idempotencyStoreConformance(() => ({ store, pass }))).toEqualTypeOf<readonly ConformanceCase[]>()
  idempotencyStoreConformance(async () => ({ store, pass, close: async () => {} }))
  // @ts-expect-error time must be able to pass
  idempotencyStoreConformance(() => ({ store }))
})
