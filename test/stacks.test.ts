import { FinalError } from 'redrive'
import { explainTask } from 'redrive/operate'
import { MemoryStore } from 'redrive/store'
import { defineTask, TaskQueue, Worker } from 'redrive/task'
import { fakeClock } from 'redrive/testing'
import { expect, it } from 'vitest'

// Outside of `src`, since frames inside the package are left out.

/** Runs a task to its end, and returns its store. */
async function run(handler: (attempt: number) => unknown, attempts = 3, retryOn?: 'all') {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const task = defineTask('work', {
    policy: { attempts, timeout: '1m', ...(retryOn && { retryOn }) },
    handler: (_: null, { attempt }) => handler(attempt),
  })
  const worker = new Worker(store, { tasks: [task], clock })
  await new TaskQueue(store).enqueue(task, null, { id: 'work' })
  await worker.start()
  await clock.advance('1d')
  await worker.stop()
  return store
}

async function stacksOf(store: MemoryStore): Promise<(string | undefined)[]> {
  return (await store.ledger('work')).map(({ stack }) => stack)
}

function chargeCard(message: string): never {
  throw new Error(message)
}

it('a failure is on record with its stack: relative, without the message, Node and this package', async () => {
  const store = await run(attempt => {
    if (attempt === 1) [1].map(() => chargeCard('another'))
    chargeCard('token=abc123 was refused')
  })
  const [first = '', second = '', last = ''] = await stacksOf(store)
  expect(first.split('\n')).toEqual([
    expect.stringMatching(/^at chargeCard \(test\/stacks\.test\.ts:\d+:\d+\)$/),
    expect.stringMatching(/^at test\/stacks\.test\.ts:\d+:\d+$/),
    'at Array.map (<anonymous>)',
    expect.stringMatching(/^at test\/stacks\.test\.ts:\d+:\d+$/),
    expect.stringMatching(/^at .*handler \(test\/stacks\.test\.ts:\d+:\d+\)$/),
  ])
  for (const stack of [second, last]) expect(stack).toMatch(/^at chargeCard \(test\/stacks\.test\.ts:\d+:\d+\)\nat /)
  expect([first, second, last].join()).not.toMatch(/refused|node:internal|src\/|\/tmp|file:/)
  expect((await explainTask(store, 'work'))?.stack).toBe(last)
})

it('a failure that repeats the one before has no stack of its own, unless the task dies of it', async () => {
  const store = await run(() => chargeCard('down'), 4)
  expect((await stacksOf(store)).map(stack => stack?.includes('chargeCard'))).toEqual([
    true,
    undefined,
    undefined,
    true,
  ])
})

it('a bug always has its stack, however often it repeats', async () => {
  const store = await run(
    () => {
      throw new TypeError("Cannot read properties of undefined (reading 'id')")
    },
    20,
    'all',
  )
  const stacks = await stacksOf(store)
  expect(stacks).toHaveLength(20)
  for (const stack of stacks) expect(stack).toMatch(/^at test\/stacks\.test\.ts:\d+:\d+\nat /)
})

it('has at most ten frames', async () => {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 50
  const deep = (depth: number): never => (depth === 0 ? chargeCard('deep') : deep(depth - 1))
  const [stack = ''] = await stacksOf(await run(() => deep(30), 1))
  Error.stackTraceLimit = stackTraceLimit
  expect(stack.split('\n')).toHaveLength(10)
})

it.each([
  ['no error', 'just text'],
  ['an error without a stack', Object.assign(new FinalError('x'), { stack: undefined })],
  ['a stack that is no text', Object.assign(new FinalError('x'), { stack: 42 })],
  ['frames of Node alone', Object.assign(new FinalError('x'), { stack: 'x\n    at node:internal/timers:581:17' })],
  ['a stack that throws', Object.defineProperty(new FinalError('x'), 'stack', { get: () => chargeCard('again') })],
])('is left out of what has none: %s', async (_, failure) => {
  const store = await run(() => {
    throw failure
  }, 1)
  expect(await stacksOf(store)).toEqual([undefined])
})

it('hides secrets, home directories and code in the places', async () => {
  const failure = new Error('x')
  failure.stack = [
    'Error: x',
    '    at token (/home/ada/secret-project/lib/token.js:10:5)',
    '    at load (https://user:hunter2@cdn.example.com/app.js:1:1)',
    `    at evaluate (eval at run (${process.cwd()}/x.js:1:1), <anonymous>:1:1)`,
    '    at /srv/app/node_modules/pg/lib/client.js:5:9',
    '    at async Promise.all (index 0)',
  ].join('\n')
  const store = await run(() => {
    throw failure
  }, 1)
  expect((await stacksOf(store))[0]?.split('\n')).toEqual([
    'at token (…/lib/token.js:10:5)',
    'at load (https://user:[redacted]@cdn.example.com/app.js:1:1)',
    'at node_modules/pg/lib/client.js:5:9',
    'at async Promise.all (index 0)',
  ])
})
