import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Bus, failedQueueOf } from 'redrive/bus'
import { consume, type EventConsumer } from 'redrive/event'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { StoreContract } from '../../src/store/internal.js'
import { openSqlite } from '../../src/store/sqlite/internal.js'
import type { BrokerServer } from '../services/broker.js'
import { BROKER_MS } from '../services/shared-broker.js'
import { BROKERS, publishPersistently } from './bus-brokers.js'
import { badIds, expectEffectsOnce, isDone, prepareEffects } from './event-account.js'
import { consumeOptions, type Happened, someEvents, toMessage } from './event-handler.js'
import { diceOf } from './seed.js'

const dice = diceOf('broker killed under events')
const EVENTS = 1500
const AT_ONCE = 100
const WITHIN = { timeout: 300_000, interval: 20 }
const TOPOLOGY = { work: 'something.happened' }

describe.each(BROKERS)('$name, killed with -9 and started again while events flow and fail', kind => {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-faults-'))
  let server: BrokerServer | undefined
  let bus: Bus | undefined
  let store: StoreContract | undefined
  let consumer: EventConsumer<Happened> | undefined
  afterEach(async () => {
    await consumer?.stop()
    await bus?.close()
    await store?.close()
    await server?.close()
    rmSync(folder, { recursive: true })
  }, 60_000)

  it('loses none: each takes effect once, or its dead letter is in the failed queue', {
    timeout: BROKER_MS,
  }, async () => {
    server = await kind.start()
    const opened = await kind.open(server.url, { timeout: '5s' })
    bus = opened
    const kept = await openSqlite(join(folder, 'redrive.db'))
    store = kept
    await prepareEffects(kept)
    await opened.declare(TOPOLOGY)
    await sleep(kind.madeMs)
    const outages: boolean[] = []
    const onOutage = ({ isOver }: { readonly isOver: boolean }) => void outages.push(!isOver)
    consumer = await consume(opened, 'work', { ...consumeOptions(kept), deadLetters: 'failed-queue', onOutage })

    const events = someEvents(EVENTS, dice)
    const waiting = [...events]
    const publish = async () => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop())
        await publishPersistently(opened, toMessage('something.happened', next))
    }
    const published = Promise.all(Array.from({ length: AT_ONCE }, publish))
    const left = dice.between(300, EVENTS - 300)
    await vi.waitUntil(() => waiting.length < left, WITHIN)
    await server.kill()
    await sleep(dice.between(0, 500))
    await server.start()
    await published

    // Who was not told that the broker has a letter writes it again: under its id, so that readers know it.
    const letters = async () => {
      const ids = new Set<string | undefined>()
      for await (const { id } of opened.browse(failedQueueOf('work'))) ids.add(id)
      return [...ids].sort()
    }
    await expect.poll(() => isDone(kept, events), WITHIN).toBe(true)
    await expect.poll(letters, WITHIN).toEqual(badIds(events).sort())
    await expect.poll(async () => (await opened.status(TOPOLOGY))[0]?.messages, WITHIN).toBe(0)
    await expect.poll(() => [outages[0], outages.at(-1)], WITHIN).toEqual([true, false])
    // RabbitMQ does not count delivered messages. Any still in flight at a stop may come back.
    await sleep(500)
    await consumer.stop()
    expect((await opened.status(TOPOLOGY))[0]?.messages).toBe(0)
    expect((await kept.count({})).dead).toBe(0)
    await expectEffectsOnce(kept, events)
  })
})
