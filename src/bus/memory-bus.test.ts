import { describe, expect, it, vi } from 'vitest'
import { busConformance } from '../testing/index.js'
import { MemoryBus, textOf } from './index.js'

describe('the memory bus keeps the contract', () => {
  const maxBytes = 1_000_000
  for (const { name, run } of busConformance(() => ({ bus: new MemoryBus({ maxBytes }), maxBytes })))
    it(name, { timeout: 60_000 }, run)
})

describe('the memory bus', () => {
  it('leaves the event loop its turns, however often a handler gives back', async () => {
    const bus = new MemoryBus()
    await bus.declare({ work: 'a' })
    await bus.publish({ id: '1', type: 'a', body: '' })
    let deliveries = 0
    await bus.consume('work', delivery => {
      deliveries++
      delivery.giveBack()
    })
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(deliveries).toBeGreaterThan(1)
    await bus.close()
  })

  it('keeps messages of one identity once in a failed queue', async () => {
    const bus = new MemoryBus()
    await bus.declare({ work: 'a' })
    const put = (body: string, identity?: string) => bus.put('work.failed', { id: '1', type: 'a', body }, { identity })
    for (const [body, identity] of [['first', 'same'], ['second', 'same'], ['third'], ['fourth']] as const) {
      await put(body, identity)
    }
    const found: string[] = []
    for await (const message of bus.browse('work.failed')) found.push(textOf(message))
    expect(found).toEqual(['first', 'third', 'fourth'])
  })

  it('says that its queues take one type each', async () => {
    const bus = new MemoryBus()
    await bus.declare({ work: 'a' })
    await expect(bus.declare({ work: 'b' })).rejects.toMatchObject({ code: 'topology_mismatch' })
  })

  it('delivers to the next what a handler has not changed', async () => {
    const bus = new MemoryBus()
    await bus.declare({ work: 'a' })
    await bus.publish({ id: '1', type: 'a', body: 'as it was' })
    const bodies: string[] = []
    const consumer = await bus.consume('work', delivery => {
      bodies.push(textOf(delivery))
      delivery.body.fill(0)
      return delivery.isRedelivered ? delivery.ack() : delivery.giveBack()
    })
    await vi.waitUntil(() => bodies.length === 2, { timeout: 10_000 })
    await consumer.stop()
    expect(bodies).toEqual(['as it was', 'as it was'])
  })

  it('delivers a long backlog in its order, what is given back included', async () => {
    const bus = new MemoryBus()
    await bus.declare({ work: 'a' })
    const ids = Array.from({ length: 5000 }, (_, i) => String(i))
    for (const id of ids) await bus.publish({ id, type: 'a', body: '' })
    const delivered: (string | undefined)[] = []
    const consumer = await bus.consume('work', ({ id, isRedelivered, ack, giveBack }) => {
      if (id === '1500' && !isRedelivered) return giveBack()
      delivered.push(id)
      ack()
    })
    await vi.waitUntil(() => delivered.length === ids.length, { timeout: 10_000 })
    expect(delivered).toEqual(ids)
    await consumer.stop()
  })
})
