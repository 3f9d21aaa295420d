import { describe, expect, it } from 'vitest'
import type { Delivery, Message } from './bus.js'
import { OpenDeliveries } from './open-deliveries.js'

const MESSAGE: Message = { id: 'm1', type: 't', body: new Uint8Array(), headers: {} }

describe('a delivery whose connection is on its way down', () => {
  const closing = () => {
    throw new Error('Channel closing')
  }

  it.each(['ack', 'giveBack'] as const)('does not trouble who settles it with %s', async how => {
    const handed: Delivery[] = []
    const deliveries = new OpenDeliveries(delivery => void handed.push(delivery))
    deliveries.hand(MESSAGE, false, { ack: closing, giveBack: closing })
    const settled = deliveries.settled()
    handed[0]?.[how]()
    await settled
    expect(deliveries.size).toBe(0)
  })

  it('does not keep the others from being given back', () => {
    let givenBack = 0
    const deliveries = new OpenDeliveries(() => {})
    deliveries.hand(MESSAGE, false, { ack: closing, giveBack: closing })
    deliveries.hand(MESSAGE, false, { ack: closing, giveBack: () => givenBack++ })
    deliveries.giveBackAll()
    expect([givenBack, deliveries.size]).toEqual([1, 0])
  })

  it('does not keep the others from being kept', () => {
    let kept = 0
    const deliveries = new OpenDeliveries(() => {})
    deliveries.hand(MESSAGE, false, { ack: closing, giveBack: closing, keep: closing })
    deliveries.hand(MESSAGE, false, { ack: closing, giveBack: closing, keep: () => kept++ })
    deliveries.keep()
    expect([kept, deliveries.size]).toEqual([1, 2])
  })
})

describe('a handler that fails', () => {
  const NO = new Error('No')
  const throws = () => {
    throw NO
  }
  // Like a promise of Bluebird or of a query builder.
  const foreign = () => ({ then: (_: unknown, reject: (reason: Error) => void) => reject(NO) }) as Promise<void>

  it.each([
    ['throws', throws],
    ['rejects', () => Promise.reject(NO)],
    ['rejects with a promise of another make', foreign],
  ])('gives its delivery back, if it %s', async (_, handle) => {
    let givenBack = 0
    const deliveries = new OpenDeliveries(handle)
    deliveries.hand(MESSAGE, false, { ack: () => {}, giveBack: () => givenBack++ })
    await deliveries.settled()
    expect(givenBack).toBe(1)
  })
})
