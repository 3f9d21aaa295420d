import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Delivery, textOf } from 'redrive/bus'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import type { BrokerUrls } from '../services/broker.js'
import { BROKER_MS, sharedBroker } from '../services/shared-broker.js'
import { BROKERS, events, freshNames, numbers } from './bus-brokers.js'
import type { BusChildOptions } from './bus-child.js'

/** Runs a consumer in a process of its own until it has killed itself. */
async function dyingConsumer(options: BusChildOptions): Promise<void> {
  const child = spawn(process.execPath, ['--import', 'tsx', join(import.meta.dirname, 'bus-child.ts')], {
    env: { ...process.env, REDRIVE_FAULT_CHILD: JSON.stringify(options) },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [, signal] = await once(child, 'exit')
  expect(signal).toBe('SIGKILL')
}

describe.each(BROKERS)('a consumer of $name that is killed between an effect and its acknowledgement', kind => {
  let broker: BrokerUrls
  beforeAll(async () => {
    broker = await sharedBroker(kind.name)
  }, BROKER_MS)

  it('leaves that event to the next, which is told so; none is lost', { timeout: 300_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'redrive-faults-'))
    const effects = join(folder, 'effects.log')
    const { queue, type } = freshNames()
    const bus = await kind.open(broker.url)
    try {
      await bus.declare({ [queue]: type })
      for (const event of events(type, 50)) await bus.publish(event)
      await dyingConsumer({ broker: kind.name, url: broker.url, queue, effects, dieAfter: 10 })
      const before = readFileSync(effects, 'utf8').trim().split('\n')
      expect(before).toHaveLength(10)
      // Long enough for NATS to wait for the acknowledgement in vain, with nobody there to deliver to.
      await sleep(3000)

      const after: Delivery[] = []
      const consumer = await bus.consume(queue, delivery => {
        after.push(delivery)
        delivery.ack()
      })
      const seen = () => new Set([...before, ...after.map(textOf)])
      const killer = () => after.find(delivery => textOf(delivery) === before.at(-1))
      await vi.waitUntil(() => seen().size === 50 && killer() !== undefined, { timeout: 120_000, interval: 20 })
      await consumer.stop()
      expect([...seen()].sort()).toEqual(numbers(50).sort())
      expect(killer()?.isRedelivered).toBe(true)
    } finally {
      await bus.close()
      rmSync(folder, { recursive: true })
    }
  })
})
