import { describe, expect, it, vi } from 'vitest'
import { type Bus, MemoryBus, type Message, type NewMessage, textOf } from '../bus/index.js'
import { driveOperation } from '../engine/internal.js'
import { consume } from '../event/index.js'
import { requeueTarget } from '../event/internal.js'
import { RetryableError } from '../policy/index.js'
import { StoreFullError } from '../store/index.js'
import { MemoryStore } from '../store/internal.js'
import { fakeClock } from '../testing/index.js'
import { systemClock } from '../time/index.js'
import {
  examineBus,
  exportFailedQueue,
  failedQueues,
  findFailedQueue,
  groupFailedQueue,
  messageView,
  NoFailedQueueError,
  NoRouteError,
  planRequeue,
  purgeFailedQueue,
  requeueFailedQueue,
  walkFailedQueue,
} from './index.js'

const TYPE = 'json.parsed'
const letter = (number: number) => JSON.stringify({ original_event: { number }, attempt_count: 8 })

/** A bus with two queues for one type, and messages in the failed queue of one of them. */
async function scene(bodies: readonly NewMessage['body'][] = [], bus = new MemoryBus()) {
  await bus.declare({ chunking: TYPE, search: TYPE })
  for (const [index, body] of bodies.entries()) {
    await bus.put('chunking.failed', { id: `event-${index + 1}`, type: TYPE, body })
  }
  return bus
}

/** The messages in a failed queue. */
async function messagesIn(bus: Bus, queue = 'chunking.failed'): Promise<Message[]> {
  const messages: Message[] = []
  for await (const message of bus.browse(queue)) messages.push(message)
  return messages
}

/** The messages in a queue, taken out of it. */
async function drain(bus: Bus, queue: string): Promise<Message[]> {
  const messages: Message[] = []
  const consumer = await bus.consume(queue, delivery => {
    messages.push(delivery)
    delivery.ack()
  })
  while ((await bus.status({ [queue]: TYPE }))[0]?.messages) await new Promise(setImmediate)
  await consumer.stop()
  return messages
}

/** A broker on which the queue beside a failed queue was deleted. */
function without(queue: string, bus: Bus): Bus {
  const status: Bus['status'] = async topology =>
    (await bus.status(topology)).map(entry => (entry.name === queue ? { ...entry, messages: undefined } : entry))
  const discover: Bus['discover'] = async () => (await bus.discover())?.filter(({ name }) => name !== queue)
  return new Proxy(bus, {
    get: (target, name) => {
      const value: unknown = { status, discover }[String(name)] ?? Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

describe('failedQueues', () => {
  it('lists the failed queues with their messages, and the queue beside each', async () => {
    const bus = await scene([letter(1)])
    expect(await failedQueues(bus)).toEqual({
      queues: [
        { name: 'chunking.failed', messages: 1, route: { queue: 'chunking', type: TYPE } },
        { name: 'search.failed', messages: 0, route: { queue: 'search', type: TYPE } },
      ],
      isComplete: true,
    })
  })

  it('takes a route for a failed queue without a queue beside it from its options alone', async () => {
    const bus = without('chunking', await scene())
    expect((await findFailedQueue(bus, 'chunking.failed')).route).toBeNull()
    const routes = { 'chunking.failed': 'archive.ingested' }
    expect((await findFailedQueue(bus, 'chunking.failed', { routes })).route).toEqual({
      queue: null,
      type: 'archive.ingested',
    })
    expect((await findFailedQueue(await scene(), 'chunking.failed', { routes })).route).toMatchObject({
      queue: 'chunking',
    })
  })

  it('looks for queues that a silent broker does not list: those given, and those with a route', async () => {
    const bus = await scene()
    bus.discover = async () => undefined as never
    expect(await failedQueues(bus)).toEqual({ queues: [], isComplete: false })
    const known = { topology: { search: TYPE }, routes: { 'chunking.failed': 'x', 'gone.failed': 'x' } }
    const { queues } = await failedQueues(bus, known)
    expect(queues.map(({ name }) => name)).toEqual(['chunking.failed', 'search.failed'])
    expect((await findFailedQueue(bus, 'chunking.failed')).route).toEqual({ queue: 'chunking', type: null })
  })

  it('takes the name of a queue for what it is, whatever objects inherit', async () => {
    const bus = new MemoryBus()
    await bus.declare({ constructor: TYPE })
    bus.discover = async () => undefined as never
    expect((await findFailedQueue(bus, 'constructor.failed')).route).toEqual({ queue: 'constructor', type: null })
  })

  it('throws for a queue that does not exist, or is not a failed queue', async () => {
    const bus = await scene()
    const missing = findFailedQueue(bus, 'nope.failed')
    await expect(missing).rejects.toThrow(NoFailedQueueError)
    await expect(missing).rejects.toThrow("There is no failed queue 'nope.failed'.")
    await expect(findFailedQueue(bus, 'chunking')).rejects.toThrow("Did you mean 'chunking.failed'?")
  })
})

it('examineBus gives the queues and the findings, those given included', async () => {
  const { queues, findings, isComplete } = await examineBus(await scene([letter(1)]), { nope: 'x' })
  expect(isComplete).toBe(true)
  expect(queues).toContainEqual({ name: 'chunking.failed', type: TYPE, isFailedQueue: true, messages: 1 })
  expect(findings.map(({ code, subject }) => [code, subject])).toContainEqual(['missing', 'nope'])
})

describe('walkFailedQueue', () => {
  it('goes from the oldest to the newest, up to the limit, and leaves them there', async () => {
    const bus = await scene(['1', '2', '3'])
    const seen: unknown[] = []
    for await (const message of walkFailedQueue(bus, 'chunking.failed', { limit: 2 })) seen.push(messageView(message))
    const about = { type: TYPE, headers: {} }
    expect(seen).toEqual([
      { id: 'event-1', ...about, body: 1 },
      { id: 'event-2', ...about, body: 2 },
    ])
    expect(await messagesIn(bus)).toHaveLength(3)
  })

  it.each([
    ['{"a":1}', { body: { a: 1 } }],
    ['not JSON', { rawBody: 'not JSON' }],
    [new Uint8Array([0xff, 0]), { rawBody: '/wA=', encoding: 'base64' }],
  ])('shows the body %j as what it is', async (body, content) => {
    const bus = await scene([body])
    const [message] = await messagesIn(bus)
    expect(message && messageView(message)).toEqual({ id: 'event-1', type: TYPE, headers: {}, ...content })
  })
})

describe('requeueFailedQueue', () => {
  it('puts the original events, and other bodies as they are, into the queue that failed on them alone', async () => {
    const bytes = new Uint8Array([0xff, 0])
    const bus = await scene([letter(1), 'not JSON', bytes])
    const progress: number[] = []
    const result = await requeueFailedQueue(bus, 'chunking.failed', { onProgress: done => progress.push(done) })
    expect(result).toEqual({
      route: { queue: 'chunking', type: TYPE },
      requeued: 3,
      duplicates: 0,
      kept: [],
      isStopped: false,
      operation: null,
    })
    expect(progress).toEqual([1, 2, 3])
    expect((await drain(bus, 'chunking')).map(({ body }) => Buffer.from(body))).toEqual([
      Buffer.from('{"number":1}'),
      Buffer.from('not JSON'),
      Buffer.from(bytes),
    ])
    expect(await drain(bus, 'search')).toEqual([])
    expect(await messagesIn(bus)).toEqual([])
  })

  it('publishes an event once whose dead letter was written twice', async () => {
    const bus = await scene()
    const put = (id: string, entry: object) =>
      bus.put('chunking.failed', { id, type: TYPE, body: JSON.stringify(entry) })
    const event = { number: 1 }
    await put('a', { original_event: event, timestamp: '2026-01-01T00:00:00.000Z' })
    await put('b', { original_event: event, timestamp: '2026-01-01T00:00:00.000Z' })
    await put('a', { original_event: event, timestamp: '2026-01-01T00:00:31.000Z' })
    expect(await requeueFailedQueue(bus, 'chunking.failed')).toMatchObject({ requeued: 2, duplicates: 1 })
    expect(await messagesIn(bus)).toEqual([])
    expect(await drain(bus, 'chunking')).toHaveLength(2)
  })

  it('tells two letters of different events apart, however alike they are, and messages without an id', async () => {
    const bus = await scene()
    const put = (id: string, dead_letter_id: string, attempt_count: number) => {
      const body = JSON.stringify({ original_event: { number: 1 }, dead_letter_id, attempt_count })
      return bus.put('chunking.failed', { id, type: TYPE, body })
    }
    await put('a', 'chunking/a', 1)
    await put('a', 'chunking/b', 1)
    await put('a', 'chunking/a', 2)
    expect(await groupFailedQueue(bus, 'chunking.failed')).toMatchObject({
      looked: 3,
      copies: 1,
      groups: [{ count: 2 }],
    })
    let text = ''
    for await (const piece of exportFailedQueue(bus, 'chunking.failed')) text += piece
    expect(JSON.parse(text)).toMatchObject({
      total_messages_in_queue: 3,
      messages: [{ body: { dead_letter_id: 'chunking/a' } }, { body: { dead_letter_id: 'chunking/b' } }],
      messages_exported: 2,
      copies_left_out: 1,
    })
    expect(await requeueFailedQueue(bus, 'chunking.failed')).toMatchObject({ requeued: 2, duplicates: 1 })
  })

  it('publishes an event with the numbers that it had, also where JavaScript would round them', async () => {
    const bus = await scene(['{"original_event":{"n":12345678901234567890, "x":1.0},"attempt_count":8}'])
    await requeueFailedQueue(bus, 'chunking.failed')
    expect((await drain(bus, 'chunking')).map(textOf)).toEqual(['{"n":12345678901234567890, "x":1.0}'])
  })

  it('publishes the bytes of a body that was not JSON as they were', async () => {
    const bus = await scene([
      JSON.stringify({ original_event: '{"cut', original_encoding: 'text' }),
      JSON.stringify({ original_event: '/wD+', original_encoding: 'base64' }),
    ])
    await requeueFailedQueue(bus, 'chunking.failed')
    const bodies = (await drain(bus, 'chunking')).map(({ body }) => Buffer.from(body))
    expect(bodies).toEqual([Buffer.from('{"cut'), Buffer.from([0xff, 0x00, 0xfe])])
  })

  it('publishes to every queue for the type of its route', async () => {
    const bus = await scene([letter(1)])
    await bus.declare({ first: 'archive.ingested', second: 'archive.ingested' })
    const routes = { 'chunking.failed': 'archive.ingested' }
    await requeueFailedQueue(without('chunking', bus), 'chunking.failed', { routes })
    for (const queue of ['first', 'second']) expect((await drain(bus, queue)).map(textOf)).toEqual(['{"number":1}'])
  })

  it('puts them into another queue if a target is given', async () => {
    const bus = await scene([letter(1)])
    await bus.declare({ slow: 'slow.work' })
    expect(await planRequeue(bus, 'chunking.failed', { target: 'slow' })).toEqual({
      count: 1,
      route: { queue: 'slow', type: 'slow.work' },
    })
    await requeueFailedQueue(bus, 'chunking.failed', { target: 'slow' })
    expect(await drain(bus, 'slow')).toMatchObject([{ type: 'slow.work' }])
  })

  it.each([
    ['nope', "There is no queue 'nope'."],
    ['search.failed', "'search.failed' is a failed queue: nothing consumes it."],
    [undefined, "No route is known for 'chunking.failed'."],
  ])('refuses the target %s and moves nothing', async (target, text) => {
    const bus = without('chunking', await scene([letter(1)]))
    const refused = requeueFailedQueue(bus, 'chunking.failed', { target })
    await expect(refused).rejects.toThrow(NoRouteError)
    await expect(refused).rejects.toThrow(text)
    expect(await messagesIn(bus)).toHaveLength(1)
  })

  it('keeps messages that the bus refuses, and goes on with the others', async () => {
    const bus = await scene(['{"small":1}', JSON.stringify({ large: 'x'.repeat(50) }), '{"small":2}'])
    const small = new MemoryBus({ maxBytes: 30 })
    await small.declare({ chunking: TYPE })
    const put: Bus['put'] = (queue, message) => small.put(queue, message)
    const { requeued, kept } = await requeueFailedQueue(Object.assign(bus, { put }), 'chunking.failed')
    expect([requeued, kept]).toEqual([
      2,
      [{ id: 'event-2', code: 'message_too_large', text: expect.stringContaining('has 62 bytes') }],
    ])
    expect((await messagesIn(bus)).map(({ id }) => id)).toEqual(['event-2'])
  })

  it('stops after the current message, and requeues the rest when it is called again', async () => {
    const bus = await scene([letter(1), letter(2), letter(3)])
    const stop = new AbortController()
    const options = { signal: stop.signal, onProgress: (done: number) => done === 2 && stop.abort() }
    const stopped = await requeueFailedQueue(bus, 'chunking.failed', options)
    expect(stopped).toMatchObject({ requeued: 2, isStopped: true })
    expect(await requeueFailedQueue(bus, 'chunking.failed', { signal: stop.signal })).toMatchObject({ requeued: 0 })
    expect(await requeueFailedQueue(bus, 'chunking.failed')).toMatchObject({ requeued: 1, isStopped: false })
    expect((await drain(bus, 'chunking')).map(textOf)).toEqual(['{"number":1}', '{"number":2}', '{"number":3}'])
  })

  it('on record, goes on with its operation when it is called again after the store has failed', async () => {
    const bus = await scene([letter(1), letter(2)])
    const store = new MemoryStore()
    const { step } = store.operations
    const requeue = () => requeueFailedQueue(bus, 'chunking.failed', { record: { store, who: 'ann' } })
    store.operations.step = () => Promise.reject(new StoreFullError("'x.db'"))
    const failure: unknown = await requeue().catch(error => error)
    store.operations.step = step
    const { operation } = await requeue()
    expect(failure).toMatchObject({ name: 'OperationInterruptedError', operation })
    expect(await drain(bus, 'chunking')).toHaveLength(2)
  })

  it('on record, goes on with what was there when it was created, and lets nobody else at the queue meanwhile', async () => {
    const bus = await scene([letter(1), letter(2), letter(3)])
    const store = new MemoryStore()
    const stop = new AbortController()
    const record = { store, who: 'ann' }
    const options = { signal: stop.signal, onProgress: () => stop.abort(), record }
    const { operation, requeued, isStopped } = await requeueFailedQueue(bus, 'chunking.failed', options)
    const id = operation ?? ''
    expect({ requeued, isStopped }).toEqual({ requeued: 1, isStopped: true })
    expect(await store.operations.get(id)).toMatchObject({ status: 'stopped', reason: 'Stopped by ann.', moved: 1 })
    await bus.put('chunking.failed', { id: 'later', type: TYPE, body: letter(4) })
    await store.operations.change(id, 'continue', { who: 'bob' })
    const second = requeueFailedQueue(bus, 'chunking.failed', { record: { store, who: 'bob' } })
    await expect(second).rejects.toMatchObject({ code: 'queue_busy', message: expect.stringContaining(id) })
    const { signal } = new AbortController()
    const drive = (on: Bus) =>
      driveOperation(store, id, { driver: 'bob', signal, clock: systemClock, outside: requeueTarget(on) })
    expect(await drive(await scene())).toBe(false)
    expect(await drive(bus)).toBe(true)
    expect(await store.operations.get(id)).toMatchObject({ status: 'done', moved: 3 })
    expect((await messagesIn(bus)).map(({ id }) => id)).toEqual(['later'])
  })

  it('on record, is carried on by a consumer of that bus when nobody else does', async () => {
    const bus = await scene([letter(1), letter(2)])
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    const set = { queue: 'chunking.failed', bus: bus.address, route: { queue: 'chunking', type: TYPE }, count: 2 }
    const { id } = await store.operations.create({ act: 'requeue', set, by: { who: 'ann' } })
    const handled: unknown[] = []
    const handler = (event: unknown) => void handled.push(event)
    const consumer = await consume(bus, 'search', { service: 's', key: () => [], store, clock, handler })
    await vi.waitFor(async () => {
      await clock.advance('10s')
      expect(await store.operations.get(id)).toMatchObject({ status: 'done', moved: 2 })
    })
    await consumer.stop()
    expect(handled).toEqual([])
    expect(await drain(bus, 'chunking')).toHaveLength(2)
  })

  it('notes what was requeued before the broker failed, and gives the operation back', async () => {
    const bus = await scene([letter(1), letter(2), letter(3)])
    const store = new MemoryStore()
    const taken = bus.put.bind(bus)
    let puts = 0
    const put: Bus['put'] = async (...args) => {
      if (++puts > 2) throw new RetryableError('The broker is away.')
      await taken(...args)
    }
    const record = { store, who: 'ann' }
    const requeue = requeueFailedQueue(Object.assign(bus, { put }), 'chunking.failed', { record })
    await expect(requeue).rejects.toThrow('The broker is away.')
    const [operation] = (await store.operations.list({}, { limit: 1 })).items
    expect(operation).toMatchObject({ status: 'running', moved: 2, driver: undefined })
  })
})

describe('purgeFailedQueue', () => {
  it('removes the oldest up to the limit', async () => {
    const bus = await scene(['1', '2', '3'])
    expect(await purgeFailedQueue(bus, 'chunking.failed', { limit: 2 })).toEqual({ removed: 2, isStopped: false })
    expect((await messagesIn(bus)).map(textOf)).toEqual(['3'])
  })

  it('throws for a queue that does not exist', async () => {
    await expect(purgeFailedQueue(await scene(), 'nope.failed')).rejects.toThrow(NoFailedQueueError)
  })
})

describe('exportFailedQueue', () => {
  async function exported(bus: Bus, options?: Parameters<typeof exportFailedQueue>[2]): Promise<unknown> {
    let text = ''
    for await (const piece of exportFailedQueue(bus, 'chunking.failed', options)) text += piece
    return JSON.parse(text)
  }

  it('writes the file in the spelling of its format, and leaves the messages there', async () => {
    const bus = await scene([letter(1), 'not JSON', new Uint8Array([0xff, 0])])
    const about = { type: TYPE, headers: {} }
    expect(await exported(bus, { clock: fakeClock() })).toEqual({
      queue: 'chunking.failed',
      export_timestamp: '2000-01-01T00:00:00.000Z',
      total_messages_in_queue: 3,
      messages: [
        { id: 'event-1', ...about, body: JSON.parse(letter(1)) },
        { id: 'event-2', ...about, raw_body: 'not JSON' },
        { id: 'event-3', ...about, raw_body: '/wA=', encoding: 'base64' },
      ],
      messages_exported: 3,
    })
    expect(await messagesIn(bus)).toHaveLength(3)
  })

  it('is valid JSON when it is empty, limited or stopped', async () => {
    expect(await exported(await scene())).toMatchObject({ messages: [], messages_exported: 0 })
    const bus = await scene(['1', '2', '3'])
    expect(await exported(bus, { limit: 2 })).toMatchObject({ total_messages_in_queue: 3, messages_exported: 2 })
    const stop = new AbortController()
    const stopped = await exported(bus, { signal: stop.signal, onProgress: () => stop.abort() })
    expect(stopped).toMatchObject({ messages: [{ body: 1 }], messages_exported: 1 })
  })
})
