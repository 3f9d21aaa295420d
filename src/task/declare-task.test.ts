import { expect, it, vi } from 'vitest'
import { OptionError } from '../policy/index.js'
import { MemoryStore } from '../store/index.js'
import { fakeClock } from '../testing/index.js'
import { declareTask, defineTask, PayloadError, type StandardSchema, TaskQueue, Worker } from './index.js'

/** Takes text, and makes a date of it. */
const day: StandardSchema<{ on: string }, { on: Date }> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: value => {
      const on = new Date(String((value as { on: unknown }).on))
      return Number.isNaN(on.getTime()) ? { issues: [{ message: 'not a day', path: ['on'] }] } : { value: { on } }
    },
  },
}

function setUp() {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  return { clock, store, queue: new TaskQueue(store) }
}

it('a declared task is enqueued where its handler is not known, and run where it is', async () => {
  const { clock, store, queue } = setUp()
  const sendEmail = declareTask<{ to: string }, string>('send-email', { policy: { attempts: 2 } })
  const { id } = await queue.enqueue(sendEmail, { to: 'ada@example.com' })

  const handler = vi.fn(async ({ to }: { to: string }) => `sent to ${to}`)
  const worker = new Worker(store, { tasks: [defineTask(sendEmail, { handler })], clock })
  await worker.start()
  await clock.advance('1s')
  await worker.stop()
  expect(await queue.get(id)).toMatchObject({ status: 'succeeded', result: 'sent to ada@example.com' })
})

it('its schema holds on both sides', async () => {
  const { clock, store, queue } = setUp()
  const remind = declareTask('remind', { payload: day })
  await expect(queue.enqueue(remind, { on: 'someday' })).rejects.toThrow(PayloadError)
  await queue.enqueue(remind, { on: '2030-01-01' })

  const handler = vi.fn()
  const worker = new Worker(store, { tasks: [defineTask(remind, { handler })], clock })
  await worker.start()
  await clock.advance('1s')
  await worker.stop()
  expect(handler.mock.calls[0]?.[0]).toEqual({ on: new Date('2030-01-01') })
})

it('its policy is that of the definition, under the same hash', () => {
  const declared = declareTask('work', { policy: { attempts: 2 } })
  const defined = defineTask(declared, { handler: () => {} })
  expect(defined).toMatchObject({ kind: 'work', policy: declared.policy, policyHash: declared.policyHash })
  expect(defined.policyHash).toBe(defineTask('work', { policy: { attempts: 2 }, handler: () => {} }).policyHash)
})

it('a worker refuses a task that has no handler', () => {
  const declared: unknown = declareTask('work')
  const make = () => new Worker(new MemoryStore(), { tasks: [declared as never] })
  expect(make).toThrow(OptionError)
  expect(make).toThrow("The task 'work' has no handler. Pass what defineTask() makes of it")
})

it.each<[string, () => unknown, string]>([
  ['declareTask', () => declareTask('work', { polcy: {} } as object), "takes no 'polcy'. Did you mean 'policy'?"],
  ['declareTask', () => declareTask('not a name'), "got 'not a name'"],
  ['defineTask', () => defineTask('work', { handler: () => {}, payloads: {} } as never), "Did you mean 'payload'?"],
  [
    'defineTask of a declared task',
    () => defineTask(declareTask('work'), { handler: () => {}, policy: {} } as never),
    "takes no 'policy', only handler, retryDelay, together.",
  ],
  ['defineTask', () => defineTask('work', { handler: 'run' } as never), "'handler' must be of type function"],
  ['Worker', () => new Worker(new MemoryStore(), { tasks: [], concurency: 5 } as never), "Did you mean 'concurrency'?"],
  ['Worker', () => new Worker(new MemoryStore(), { tasks: [], sink: {} } as never), "'sink' must be of type function"],
])('%s refuses a wrong option', (_, make, message) => {
  expect(make).toThrow(message)
})

it('enqueue refuses a wrong option, one by one and many at once', async () => {
  const { queue } = setUp()
  const work = declareTask<number>('work')
  await expect(queue.enqueue(work, 1, { dealy: '5m' } as object)).rejects.toThrow(
    "enqueue() takes no 'dealy'. Did you mean 'delay'?",
  )
  await expect(
    queue.enqueueMany(work, [{ payload: 1 }, { payload: 2, prio: 3 } as { payload: number }]),
  ).rejects.toThrow("An item of enqueueMany() takes no 'prio', only")
  expect((await queue.list()).items).toEqual([])
})
