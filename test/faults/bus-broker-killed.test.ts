import { setTimeout as sleep } from 'node:timers/promises'
import { type Bus, textOf } from 'redrive/bus'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { BrokerServer } from '../services/broker.js'
import { BROKER_MS } from '../services/shared-broker.js'
import { BROKERS, events, numbers, publishPersistently } from './bus-brokers.js'
import { diceOf } from './seed.js'

const dice = diceOf('broker killed')
const EVENTS = 10_000
const AT_ONCE = 200
const WITHIN = { timeout: 300_000, interval: 10 }
const TOPOLOGY = { work: 'something.happened' }

describe.each(BROKERS)('$name, killed with -9 and started again', ({ start, open, madeMs }) => {
  let server: BrokerServer | undefined
  let bus: Bus | undefined
  afterEach(async () => {
    await bus?.close()
    await server?.close()
  }, 60_000)

  it('loses none of 10 000 events that flow meanwhile, nor what has failed; consumers go on by themselves', {
    timeout: BROKER_MS,
  }, async () => {
    server = await start()
    const troubles: Error[] = []
    const opened = await open(server.url, { timeout: '5s', onTrouble: trouble => troubles.push(trouble) })
    bus = opened
    await opened.declare(TOPOLOGY)
    await sleep(madeMs)
    for (const event of events('something.happened', 20)) await opened.put('work.failed', event)
    const handled = new Set<string>()
    const consumer = await opened.consume('work', delivery => {
      handled.add(textOf(delivery))
      delivery.ack()
    })

    const waiting = events('something.happened', EVENTS)
    const publish = async () => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) await publishPersistently(opened, next)
    }
    const published = Promise.all(Array.from({ length: AT_ONCE }, publish))
    for (let kill = 0; kill < 2; kill++) {
      const next = waiting.length - dice.between(500, 2000)
      await vi.waitUntil(() => waiting.length < next, WITHIN)
      await server.kill()
      await sleep(dice.between(0, 500))
      await server.start()
    }
    await published
    await vi.waitUntil(() => handled.size === EVENTS, WITHIN)
    // A message acknowledged just before a kill may come once more.
    const left = async () => (await opened.status(TOPOLOGY)).map(({ messages }) => messages)
    await expect.poll(left, WITHIN).toEqual([0, 20])
    await consumer.stop()

    expect([...handled].sort()).toEqual(numbers(EVENTS).sort())
    expect(troubles.map(({ name }) => name)).toContain('BusUnavailableError')
    const failed: string[] = []
    for await (const message of opened.browse('work.failed')) failed.push(textOf(message))
    expect(failed).toEqual(numbers(20))
  })
})
