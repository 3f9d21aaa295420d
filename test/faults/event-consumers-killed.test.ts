import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bus } from 'redrive/bus'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { StoreContract } from '../../src/store/internal.js'
import { freshDatabase } from '../services/fresh-database.js'
import { BROKER_MS, sharedBroker } from '../services/shared-broker.js'
import { BROKERS, freshNames } from './bus-brokers.js'
import { badIds, effectsOf, expectEffectsOnce, isDone, prepareEffects } from './event-account.js'
import type { EventChildOptions } from './event-child.js'
import { someEvents, toMessage } from './event-handler.js'
import { openStore } from './open-store.js'
import { type Dice, diceOf } from './seed.js'

const dice = diceOf('event consumers killed')
const EVENTS = 400

const ON = { rabbitmq: 'SQLite', nats: 'PostgreSQL' }

describe.each(BROKERS)('events from $name, each delivered 1 to 5 times and in any order', kind => {
  let folder: string
  let bus: Bus
  let store: StoreContract
  let children: ChildProcess[]
  let options: EventChildOptions
  const { queue, type } = freshNames()

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'redrive-faults-'))
    children = []
    const storeUrl = ON[kind.name] === 'SQLite' ? `sqlite:${join(folder, 'redrive.db')}` : await freshDatabase()
    const { url: brokerUrl } = await sharedBroker(kind.name)
    options = { broker: kind.name, brokerUrl, storeUrl, queue }
    bus = await kind.open(brokerUrl)
    store = await openStore(storeUrl)
    await prepareEffects(store)
    await bus.declare({ [queue]: type })
  }, BROKER_MS)

  afterEach(async () => {
    for (const child of children) child.kill('SIGKILL')
    await bus.close()
    await store.close()
    rmSync(folder, { recursive: true })
  })

  function startConsumer(more: Partial<EventChildOptions> = {}): ChildProcess {
    const child = spawn(process.execPath, ['--import', 'tsx', join(import.meta.dirname, 'event-child.ts')], {
      env: { ...process.env, REDRIVE_FAULT_CHILD: JSON.stringify({ ...options, ...more }) },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    children.push(child)
    return child
  }

  /** A consumer that dies by itself, between an effect and its acknowledgement. */
  async function consumerThatDies(dieAt: EventChildOptions['dieAt']): Promise<void> {
    const [, signal] = await once(startConsumer({ dieAt }), 'exit')
    expect(signal).toBe('SIGKILL')
  }

  /** A consumer that is killed in the middle of whatever it does. */
  async function consumerThatIsKilled(): Promise<void> {
    const child = startConsumer()
    await sleep(dice.between(700, 1800))
    child.kill('SIGKILL')
    await once(child, 'exit')
  }

  it(`take effect once or are one dead letter, on ${ON[kind.name]}, while consumers are killed with -9`, {
    timeout: 180_000,
  }, async () => {
    const events = someEvents(EVENTS, dice)
    const messages = events.flatMap(event => Array(dice.between(1, 5)).fill(toMessage(type, event)))
    const published = Promise.all(shuffled(messages, dice).map(message => bus.publish(message)))
    const byThemselves = async () => {
      await consumerThatDies({ moment: 'effect', time: dice.between(1, 60) })
      await consumerThatDies({ moment: 'ack', time: dice.between(1, 60) })
    }
    const fromOutside = async () => {
      // They must not do all there is before the other has begun, which then would not die.
      await vi.waitUntil(async () => (await effectsOf(store)).size > 0, { timeout: 300_000, interval: 10 })
      for (let kill = 0; kill < 2; kill++) await consumerThatIsKilled()
    }
    let areDead = false
    const deaths = Promise.allSettled([byThemselves(), fromOutside()]).then(results => {
      areDead = true
      return results
    })
    await published
    // Whoever is to die at an acknowledgement gets something to acknowledge, however quick the others are.
    for (let next = 0; !areDead; next++) {
      await bus.publish(messages[next % messages.length])
      await sleep(5)
    }
    expect((await deaths).flatMap(result => (result.status === 'rejected' ? [result.reason] : []))).toEqual([])

    const survivor = startConsumer()
    const dead = async () => (await store.list({ status: 'dead' }, { limit: 1000 })).items.map(({ id }) => id)
    const isOver = async () => (await isDone(store, events)) && (await dead()).length === badIds(events).length
    await expect.poll(isOver, { timeout: 300_000, interval: 50 }).toBe(true)
    const waiting = async () => (await bus.status({ [queue]: type })).map(({ messages }) => messages)
    await expect.poll(waiting, { timeout: 120_000, interval: 50 }).toEqual([0, 0])
    survivor.kill('SIGTERM')
    expect(await once(survivor, 'exit')).toEqual([0, null])

    await expectEffectsOnce(store, events)
    expect((await dead()).sort()).toEqual(
      badIds(events)
        .map(id => `${queue}/${id}`)
        .sort(),
    )
    // Nothing that it had in hand has come back.
    expect(await waiting()).toEqual([0, 0])
  })
})

function shuffled<T>(items: readonly T[], dice: Dice): T[] {
  const left = [...items]
  for (let last = left.length - 1; last > 0; last--) {
    const other = dice.between(0, last)
    ;[left[last], left[other]] = [left[other] as T, left[last] as T]
  }
  return left
}
