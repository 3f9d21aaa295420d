import { expect, it, onTestFinished } from 'vitest'
import { costTotals } from '../operate/index.js'
import { FinalError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'
import { fakeClock } from '../testing/index.js'
import { defineTask, type TaskContext, TaskQueue, Worker } from './index.js'

async function runOne(tell: (task: TaskContext, payload: string) => unknown) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const task = defineTask('ask', {
    policy: { attempts: 2, backoff: ['1m'], jitter: 'none' },
    handler: async (payload: string, context) => tell(context, payload),
  })
  await new TaskQueue(store).enqueue(task, 'payload', { id: 't', key: 'acme' })
  const worker = new Worker(store, { tasks: [task], clock })
  onTestFinished(() => worker.stop())
  await worker.start()
  await clock.advance(0)
  return { clock, store, worker }
}

it('adds up what the attempts of a task report, those that fail too, and keeps it with each', async () => {
  const { clock, store } = await runOne(({ attempt, used }) => {
    used({ tokens: 100 })
    used({ tokens: 20, dollars: 0.5 })
    if (attempt === 1) throw new Error('busy')
    throw new FinalError('refused')
  })
  await clock.advance('1m')
  expect(await costTotals(store, {}, ['kind', 'key'])).toEqual([
    { kind: 'ask', key: 'acme', used: { tokens: 240, dollars: 1 } },
  ])
  const rows = (await store.ledger('t')).map(({ outcome, notes }) => [outcome, notes?.used])
  expect(rows).toEqual([
    ['retry', { tokens: 120, dollars: 0.5 }],
    ['dead', { tokens: 120, dollars: 0.5 }],
  ])
})

it('counts what an attempt has spent that its worker hands back', async () => {
  const { clock, store, worker } = await runOne(({ signal, used }) => {
    used({ tokens: 7 })
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  })
  const stopped = worker.stop()
  await clock.advance('10s')
  await stopped
  expect(await store.get('t')).toMatchObject({ status: 'waiting', attempts: 0 })
  expect(await costTotals(store, {}, [])).toEqual([{ used: { tokens: 7 } }])
})

it('ignores amounts that are no numbers, with one warning, and keeps any name', async () => {
  const warnings: string[] = []
  const listener = ({ message }: Error) => warnings.push(message)
  process.on('warning', listener)
  const { store } = await runOne(({ used }) => {
    used({ tokens: Number.NaN, 'a\0b': 3, 'a\ufffdb': 1, [`a${'é'.repeat(5000)}`]: 2 })
    used(undefined as never)
  })
  await new Promise(resolve => setImmediate(resolve))
  process.off('warning', listener)
  expect(await store.get('t')).toMatchObject({ status: 'succeeded' })
  expect(await costTotals(store, {}, [])).toEqual([{ used: { 'a\ufffdb': 4, [`a${'é'.repeat(255)}`]: 2 } }])
  expect(warnings).toEqual([expect.stringContaining("The used() of the task 'ask' needs a number, 0 or more")])
})
