import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { redriveDeadLetters } from '../operate/index.js'
import { FinalError, OptionError } from '../policy/index.js'
import { schedule } from '../schedule/index.js'
import { MemoryStore } from '../store/internal.js'
import type { WorkEvent } from '../telemetry/index.js'
import { failureText } from '../telemetry/index.js'
import { fakeClock } from '../testing/index.js'
import type { DeclareOptions } from './declare-task.js'
import {
  CodecError,
  compressed,
  type Death,
  declareTask,
  defineTask,
  encrypted,
  type StandardSchema,
  storeAudit,
  type TaskHandler,
  TaskNotSucceededError,
  TaskQueue,
  Worker,
} from './index.js'

const KEY = randomBytes(32)
const CODEC = encrypted({ keys: { k1: KEY }, current: 'k1' })
const POLICY = { attempts: 2, backoff: ['1m'], jitter: 'none' } as const
const BY = { who: 'ada', why: 'the key is back' }

type Order = { readonly card: string }

/** A kind whose payloads hold the card `4242`, with its handler and its codec. */
function charge(handler: TaskHandler<Order, unknown>, options: Pick<DeclareOptions<Order>, 'codec' | 'onDead'> = {}) {
  return defineTask('charge', { policy: POLICY, codec: CODEC, ...options, handler })
}

function scene() {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store, { clock })
  const events: WorkEvent[] = []
  const run = async (task: ReturnType<typeof charge>) => {
    const audit = storeAudit(store)
    const sink = (event: WorkEvent) => {
      events.push(event)
      return audit(event)
    }
    const worker = new Worker(store, { tasks: [task], clock, name: 'w', sink })
    await worker.start()
    await clock.advance(100)
    await clock.advance(60_000)
    await worker.stop()
  }
  /** Everything that the store has. */
  const dump = async (id: string) => {
    const [task, ledger, steps] = [await store.get(id), await store.ledger(id), await store.steps(id)]
    const groups = await store.groups.list({}, { limit: 100 })
    const audit = await store.audit.tail(100)
    return JSON.stringify([task, ledger, steps, groups, audit])
  }
  return { clock, store, queue, events, run, dump }
}

const ORDER = { card: '4242' }

describe('a task of an encrypted kind', () => {
  it('gets its payload, and its result is read by whoever has the task', async () => {
    const { store, queue, run, dump } = scene()
    const seen: unknown[] = []
    const task = charge(order => {
      seen.push(order)
      return { paid: order.card }
    })
    const { id } = await queue.enqueue(task, ORDER)
    await run(task)
    expect(seen).toEqual([ORDER])
    expect(await dump(id)).not.toContain('4242')
    expect(await queue.result(id, { task })).toEqual({ paid: '4242' })
    expect(await queue.get(id, { task })).toMatchObject({ payload: ORDER, result: { paid: '4242' } })
    await expect(queue.result(id)).rejects.toMatchObject({ code: 'codec_missing' })
    expect((await queue.get(id))?.payload).toMatch(/^~redrive1 aes-256-gcm:k1:/)
    expect((await store.get(id))?.payload).not.toContain('4242')
  })

  it('is enqueued encoded by every way of a queue', async () => {
    const { store, queue, run, dump } = scene()
    const seen: unknown[] = []
    const task = charge(order => void seen.push(order.card))
    await queue.enqueueMany(task, [
      { id: 'a', payload: ORDER },
      { id: 'b', payload: ORDER, delay: '1s' },
    ])
    await store.enqueue([await queue.prepare(task, ORDER, { id: 'c' })])
    for (const id of ['a', 'b', 'c']) expect(await dump(id)).not.toContain('4242')
    await run(task)
    expect(seen).toEqual(['4242', '4242', '4242'])
  })

  it('that dies shows the name and the code of its failure, and the rest only with its task', async () => {
    const { queue, events, run, dump } = scene()
    const task = charge(async ({ card }, context) => {
      await context.step('reserve', () => ({ reserved: card }))
      await context.step('charge', () => {
        const failure = new FinalError(`the card ${card} was refused`, { code: 'card_refused' })
        failure.stack = `FinalError: the card ${card}\n    at pay4242 (/app/src/pay.ts:7:1)`
        throw failure
      })
    })
    const { id } = await queue.enqueue(task, ORDER)
    await run(task)
    expect(await dump(id)).not.toContain('4242')
    const told = events.flatMap(event => ('failure' in event ? failureText(event.failure) : []))
    expect(new Set(told)).toEqual(new Set(['FinalError: (encoded)']))
    const letter = await queue.deadLetter(id)
    expect(letter).toMatchObject({ errorCode: 'card_refused', errorMessage: "FinalError: step 'charge': (encoded)" })
    const read = await queue.deadLetter(id, { task })
    expect(read).toMatchObject({ payload: ORDER, errorMessage: "FinalError: step 'charge': the card 4242 was refused" })
    expect(read?.history.at(-1)?.error).toBe("FinalError: step 'charge': the card 4242 was refused")
    expect(read?.history.at(-1)?.stack).toContain('pay4242')
    const failed = await queue.result(id, { task }).catch((failure: unknown) => failure)
    expect(failed).toBeInstanceOf(TaskNotSucceededError)
    expect(String(failed)).toContain('the card 4242 was refused')
    await expect(queue.result(id)).rejects.not.toThrow('4242')
  })

  it('goes on behind a step that is on record', async () => {
    const { queue, run, dump } = scene()
    let [reserved, attempts] = [0, 0]
    const task = charge(async ({ card }, context) => {
      const { number } = await context.step('reserve', () => ({ number: `${card}-${++reserved}` }))
      if (++attempts === 1) throw new Error(`no answer for ${card}`)
      return number
    })
    const { id } = await queue.enqueue(task, ORDER)
    await run(task)
    expect(await queue.result(id, { task })).toBe('4242-1')
    expect([reserved, attempts]).toEqual([1, 2])
    expect(await dump(id)).not.toContain('4242')
  })

  it('groups its failures by their code and their name alone', async () => {
    const { store, queue, run } = scene()
    const task = charge(({ card }) => {
      throw card === '1' ? new TypeError(`card ${card}`) : new FinalError(`an entirely different text of ${card}`)
    })
    await queue.enqueueMany(
      task,
      ['1', '2', '3'].map(card => ({ payload: { card } })),
    )
    await run(task)
    const { items } = await store.groups.list({}, { limit: 10 })
    expect(items.map(({ errorName, pattern, frames }) => [errorName, pattern, frames]).sort()).toEqual([
      ['FinalError', '(encoded)', []],
      ['TypeError', '(encoded)', []],
    ])
  })

  it('has its payload checked by its schema as it was enqueued', async () => {
    const { store, queue, run } = scene()
    const validate = (value: unknown) =>
      (value as Order).card === '4242' ? { value: value as Order } : { issues: [{ message: 'no card' }] }
    const payload: StandardSchema<Order> = { '~standard': { version: 1, vendor: 'test', validate } }
    const seen: Order[] = []
    const task = defineTask('charge', {
      policy: POLICY,
      codec: CODEC,
      payload,
      handler: order => void seen.push(order),
    })
    await expect(queue.enqueue(task, { card: '1' })).rejects.toThrow('no card')
    const { id } = await queue.enqueue(task, ORDER)
    await run(task)
    expect(seen).toEqual([ORDER])
    expect((await store.get(id))?.status).toBe('succeeded')
  })
})

describe('a payload that cannot be decoded', () => {
  const keys = { k1: KEY }
  const refused: [string, ReturnType<typeof encrypted> | undefined, (text: string) => string][] = [
    ['codec_key_missing', encrypted({ keys: { k2: KEY }, current: 'k2' }), text => text],
    ['codec_key_wrong', encrypted({ keys: { k1: randomBytes(32) }, current: 'k1' }), text => text],
    ['codec_tampered', encrypted({ keys, current: 'k1' }), text => `${text.slice(0, -12)}AAAA${text.slice(-8)}`],
    ['codec_tampered', encrypted({ keys, current: 'k1' }), text => text.slice(0, 60)],
    ['codec_not_encoded', encrypted({ keys, current: 'k1' }), () => '{"card":"4242"}'],
    ['codec_missing', undefined, text => text],
  ]

  it.each(refused)(
    'makes a dead letter with the code %s, and a redrive succeeds once the cause is gone',
    async (code, codec, damage) => {
      const { store, queue, run } = scene()
      const task = charge(({ card }) => `paid ${card}`)
      const { id } = await queue.enqueue(task, ORDER, { id: 'c' })
      const payload = (await store.get(id))?.payload ?? ''
      await store.edit(id, damage(payload), { who: 'mallory' })
      await run(charge(({ card }) => `paid ${card}`, { codec }))
      expect(await store.get(id)).toMatchObject({ status: 'dead', attempts: 1, errorClass: 'final', errorCode: code })
      expect((await store.get(id))?.errorMessage).toMatch(/^CodecError: The (payload|kind) /)
      await store.edit(id, payload, BY)
      await queue.redrive(id, BY)
      await run(task)
      expect(await queue.result(id, { task })).toBe('paid 4242')
    },
  )

  it('does not stop whoever reads the others', async () => {
    const { queue } = scene()
    const other = charge(() => 1, { codec: encrypted({ keys: { k2: KEY }, current: 'k2' }) })
    await queue.enqueue(
      charge(() => 1),
      ORDER,
      { id: 'a' },
    )
    await expect(queue.get('a', { task: other })).rejects.toThrow(CodecError)
    expect((await queue.list()).items).toHaveLength(1)
  })
})

it('plain tasks of a kind that is encrypted from now on run if that is allowed, and a rotated key reads both', async () => {
  const { queue, run } = scene()
  const seen: string[] = []
  const handler = ({ card }: Order) => void seen.push(card)
  await queue.enqueue(charge(handler, { codec: undefined }), { card: 'plain' })
  await queue.enqueue(charge(handler), { card: 'first key' })
  const both = encrypted({ keys: { k1: KEY, k2: randomBytes(32) }, current: 'k2', allowPlain: true })
  const task = charge(handler, { codec: [compressed(), both] })
  await queue.enqueue(task, { card: 'second key '.repeat(50) })
  await run(task)
  expect(seen).toEqual(['plain', 'first key', 'second key '.repeat(50)])
})

it('a compressed kind keeps its errors readable, and takes plain payloads', async () => {
  const { store, queue, run } = scene()
  const task = charge(
    ({ card }) => {
      throw new FinalError(`no ${card}`)
    },
    { codec: compressed() },
  )
  const { id } = await queue.enqueue(task, { card: '4'.repeat(1000) })
  await store.enqueue([{ id: 'plain', kind: 'charge', payload: '{"card":"5"}' }])
  await run(task)
  expect((await store.get(id))?.payload.length).toBeLessThan(200)
  expect((await store.get(id))?.errorMessage).toMatch(/^FinalError: no 4+/)
  expect((await store.get('plain'))?.errorMessage).toBe('FinalError: no 5')
})

describe('a patch', () => {
  it('changes encoded payloads where the tasks have the codec, and leaves them alone elsewhere', async () => {
    const { store, queue, run, dump } = scene()
    const task = charge(({ card }) => {
      if (card === '4242') throw new FinalError('refused')
      return card
    })
    await queue.enqueue(task, ORDER, { id: 'a' })
    await run(task)
    const patch = { card: '4343' }
    const without = await redriveDeadLetters(store, { ids: ['a'] }, { ...BY, patch })
    expect(without).toMatchObject({ moved: 0 })
    expect((await store.get('a'))?.status).toBe('dead')
    const { moved } = await redriveDeadLetters(store, { ids: ['a'] }, { ...BY, patch, tasks: [task] })
    expect(moved).toBe(1)
    expect((await dump('a')).match(/4242|4343/)).toBeNull()
    await run(task)
    expect(await queue.result('a', { task })).toBe('4343')
  })
})

describe('an encrypted kind is refused', () => {
  const task = charge(() => 1)

  it('as the task of a schedule and as what follows a death: their payloads are plain text', () => {
    expect(() => schedule('nightly', { cron: '@daily', task, payload: ORDER })).toThrow(
      "'task' cannot be the task 'charge'. Its payload would stand in the store as plain text",
    )
    const follower = declareTask<Death>('tell', { codec: CODEC })
    expect(() => declareTask('other', { onDead: follower })).toThrow(OptionError)
    expect(() => declareTask('other', { onDead: declareTask<Death>('tell', { codec: compressed() }) })).not.toThrow()
  })

  it('with anything but a codec', () => {
    expect(() => declareTask('x', { codec: {} as never })).toThrow('must be encrypted(), compressed()')
  })
})

it('the task that follows the death of an encrypted one is told the name of the failure, and not its message', async () => {
  const { store, queue, run } = scene()
  const task = charge(
    ({ card }) => {
      throw new FinalError(`the card ${card}`, { code: 'refused' })
    },
    { onDead: declareTask<Death>('tell') },
  )
  await queue.enqueue(task, ORDER, { id: 'a' })
  await run(task)
  const { items } = await store.list({ kind: 'tell' }, { limit: 10 })
  expect(items.map(({ payload }) => JSON.parse(payload))).toMatchObject([
    { id: 'a', errorCode: 'refused', errorMessage: 'FinalError: (encoded)' },
  ])
})
