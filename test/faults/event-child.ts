import { setTimeout as sleep } from 'node:timers/promises'
import type { Bus, Delivery } from 'redrive/bus'
import { consume } from 'redrive/event'
import { BROKERS } from './bus-brokers.js'
import { consumeOptions, type DeadlyMoment } from './event-handler.js'
import { openStore } from './open-store.js'

/*
 * A consumer of events in a process of its own. It may be told to kill itself with -9: after an effect, or just before
 * an acknowledgement. SIGTERM lets it stop in good order, once it has nothing in hand: what it has may come back.
 */

/** The start-up options of the process. */
export interface EventChildOptions {
  readonly broker: 'rabbitmq' | 'nats'
  readonly brokerUrl: string
  readonly storeUrl: string
  readonly queue: string
  /** The how-manieth of such moments is its last. */
  readonly dieAt?: { readonly moment: DeadlyMoment; readonly time: number }
}

const options: EventChildOptions = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '')
let times = 0
let inHand = 0
function reach(moment: DeadlyMoment): void {
  if (moment === options.dieAt?.moment && ++times === options.dieAt.time) process.kill(process.pid, 'SIGKILL')
}

/** The same bus, with the moment before each acknowledgement in reach. */
function deadly(bus: Bus): Bus {
  const fatal = (delivery: Delivery): Delivery => ({
    ...delivery,
    ack() {
      reach('ack')
      delivery.ack()
      inHand--
    },
    giveBack() {
      delivery.giveBack()
      inHand--
    },
  })
  const take: Bus['consume'] = (queue, handle, more) =>
    bus.consume(
      queue,
      delivery => {
        inHand++
        return handle(fatal(delivery))
      },
      more,
    )
  return new Proxy(bus, {
    get(target, name: keyof Bus) {
      if (name === 'address') return target.address
      return name === 'consume' ? take : target[name].bind(target)
    },
  })
}

const kind = BROKERS.find(({ name }) => name === options.broker)
if (kind === undefined) throw new Error(`There is no broker '${options.broker}'.`)
const bus = await kind.open(options.brokerUrl)
const store = await openStore(options.storeUrl)
const consumer = await consume(
  deadly(bus),
  options.queue,
  consumeOptions(store, () => reach('effect')),
)
process.once('SIGTERM', async () => {
  for (let quiet = 0; quiet < 20; quiet++) {
    await sleep(10)
    if (inHand > 0) quiet = 0
  }
  await consumer.stop()
  await bus.close()
  await store.close()
  process.exit(0)
})
