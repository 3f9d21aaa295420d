// Events over RabbitMQ and NATS: how near they come to what one writes with the client alone. By the clock on the wall.
import * as nats from '../events/nats.mjs'
import * as rabbitmq from '../events/rabbitmq.mjs'
import { publish, startConsumer, untilWaiting, withStore } from '../events/redrive.mjs'
import { ratesInTurns, shareFigure } from '../events/rounds.mjs'

const EVENTS = 10_000
const AT_ONCE = 1000
const PREFETCH = 100

let queues = 0
/** A queue that nobody else has. */
async function freshQueue(bus) {
  const name = `bench-${++queues}`
  await bus.declare({ [name]: name })
  return { queue: name, type: name }
}

/** Events that handlers are ready for, or not. */
function events(isReady) {
  return Array.from({ length: EVENTS }, (_, n) => {
    const id = `${isReady ? 'good' : 'early'}-${n}`
    return { id, body: JSON.stringify({ id, isReady, title: 'something has happened', at: '2026-01-01T00:00:00Z' }) }
  })
}

function inBatches(events) {
  return Array.from({ length: events.length / AT_ONCE }, (_, n) => events.slice(n * AT_ONCE, (n + 1) * AT_ONCE))
}

const good = events(true)
const early = events(false)
const GOOD = inBatches(good)
const EARLY = inBatches(early)
const MIXED = inBatches(good.flatMap((event, n) => [event, early[n]]))

/** Events per second, from the first good one that is handled to the last. `begin` is given what counts them. */
async function perSecond(begin) {
  let left = EVENTS
  let firstAt
  await new Promise((resolve, reject) => {
    const count = () => {
      firstAt ??= performance.now()
      if (--left === 0) resolve()
    }
    begin(count).catch(reject)
  })
  return (EVENTS * 1000) / (performance.now() - firstAt)
}

/** Consumes the messages of a queue with hand-written code. */
async function consumedByHand({ bus, hand }) {
  const names = await freshQueue(bus)
  await publish(bus, names, GOOD)
  return perSecond(handle => hand.consume(names, PREFETCH, handle))
}

/** Consumes the messages of a queue with Redrive, beside events that already wait for their retry. */
function consumed({ bus }, { waiting = [], batches = GOOD } = {}) {
  return withStore(async store => {
    const names = await freshQueue(bus)
    const start = handle => startConsumer(bus, names, { store, prefetch: PREFETCH, handle })
    if (waiting.length > 0) {
      const before = await start()
      await publish(bus, names, waiting)
      await untilWaiting(store, waiting.flat().length)
      await before.stop()
    }
    await publish(bus, names, batches)
    let consumer
    const rate = await perSecond(async handle => {
      consumer = await start(handle)
    })
    await consumer.stop()
    return rate
  })
}

async function published(broker, publishAll) {
  const names = await freshQueue(broker.bus)
  const start = performance.now()
  await publishAll(names, GOOD)
  return (EVENTS * 1000) / (performance.now() - start)
}

async function figuresOf({ name, start, openBus, openByHand }) {
  const server = await start()
  try {
    const broker = { bus: await openBus(server.url), hand: await openByHand(server.url) }
    const byHand = 'by hand'
    const consuming = await ratesInTurns({
      [byHand]: () => consumedByHand(broker),
      redrive: () => consumed(broker),
    })
    const beside = await ratesInTurns({
      alone: () => consumed(broker),
      'beside those that wait': () => consumed(broker, { waiting: EARLY }),
      'with as many that fail among them': () => consumed(broker, { batches: MIXED }),
    })
    const publishing = await ratesInTurns({
      [byHand]: () => published(broker, (names, batches) => broker.hand.publish(names, batches)),
      redrive: () => published(broker, (names, batches) => publish(broker.bus, names, batches)),
    })
    await broker.bus.close()
    await broker.hand.close()
    return [
      shareFigure(`${EVENTS} events that succeed, consumed from ${name}`, consuming, { row: 'redrive', min: 0.6 }),
      shareFigure(`The same from ${name}, while ${EVENTS} others wait for their retry`, beside, {
        row: 'beside those that wait',
        min: 0.8,
      }),
      shareFigure(`${EVENTS} events published to ${name}, confirmed`, publishing, { row: 'redrive', min: 0.6 }),
    ]
  } finally {
    await server.close()
  }
}

console.log(JSON.stringify([...(await figuresOf(rabbitmq)), ...(await figuresOf(nats))]))
