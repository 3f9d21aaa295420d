import { describe, expect, it } from 'vitest'
import { listWorkers, why } from '../operate/index.js'
import { MemoryStore } from '../store/index.js'
import type { WorkEvent } from '../telemetry/index.js'
import { fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { defineTask, TaskQueue, Worker, type WorkerOptions } from './index.js'

/** A worker whose handlers take as long as their payload says, and ignore their signals. */
async function deaf(timeout: '5s' | '5m', options: Partial<WorkerOptions> = {}) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store)
  const seen: string[] = []
  const types: string[] = []
  let [running, most] = [0, 0]
  const work = defineTask('work', {
    policy: { attempts: 2, timeout, backoff: { base: '1s' }, jitter: 'none' },
    handler: async ({ name, ms }: { readonly name: string; readonly ms: number }) => {
      seen.push(`+${name}`)
      most = Math.max(most, ++running)
      await sleep(ms, clock)
      running--
      seen.push(`-${name}`)
      return name
    },
  })
  const sink = (event: WorkEvent) => types.push(event.type)
  const worker = new Worker(store, { tasks: [work], clock, sink, ...options })
  await worker.start()
  return { clock, store, queue, worker, work, seen, types, most: () => most }
}

describe('a handler that ignores its signal', () => {
  it('keeps the turn of its ordered lane until it ends', async () => {
    const { clock, store, queue, work, seen } = await deaf('5s')
    await store.limit({ kind: 'work' }, { isOrdered: true })
    for (const name of ['1', '2']) await queue.enqueue(work, { name, ms: 8000 }, { id: name, key: 'k' })
    await clock.advance('1m')
    expect(seen).toEqual(['+1', '-1', '+1', '-1', '+2', '-2', '+2', '-2'])
    expect((await store.ledger('1')).map(({ outcome, startedAt, endedAt }) => [outcome, endedAt - startedAt])).toEqual([
      ['retry', 5000],
      ['dead', 5000],
    ])
  })

  it('keeps its slot, so that no more run at once than may', async () => {
    const { clock, queue, work, most } = await deaf('5s', { concurrency: 2 })
    const tasks = ['a', 'b', 'c', 'd'].map(name => ({ payload: { name, ms: 9000 } }))
    await queue.enqueueMany(work, tasks)
    await clock.advance('2m')
    expect(most()).toBe(2)
  })

  it('is abandoned after its timeout, or after a minute if that is less, and says so', async () => {
    const { clock, queue, work, types, worker } = await deaf('5s', { concurrency: 1 })
    await queue.enqueue(work, { name: 'stuck', ms: 1e9 }, { id: 'stuck' })
    await clock.advance(0)
    await queue.enqueue(work, { name: 'next', ms: 0 }, { id: 'next' })
    await clock.advance('9s')
    expect(await queue.get('next')).toMatchObject({ status: 'waiting' })
    expect(types).toEqual(['attempt_started', 'timed_out', 'overrun_began'])
    await clock.advance('1s')
    expect(await queue.get('next')).toMatchObject({ status: 'succeeded' })
    expect(types.slice(3, 5)).toEqual(['abandoned', 'retry_scheduled'])
    await worker.stop()
  })

  it('is cancelled once it has ended, whatever it returns, and is shown as still running meanwhile', async () => {
    const { clock, store, queue, work, types } = await deaf('5m')
    await queue.enqueue(work, { name: 'a', ms: 40_000 }, { id: 'a' })
    await clock.advance('1s')
    await queue.cancel('a')
    await clock.advance('20s')
    expect(await queue.get('a')).toMatchObject({ status: 'running' })
    expect((await why(store, 'a'))?.causes.at(-1)?.text).toContain('It is cancelled, and still running.')
    expect(await listWorkers(store)).toMatchObject([{ overruns: ['a'] }])
    await clock.advance('20s')
    expect(await queue.get('a')).toMatchObject({ status: 'cancelled', result: undefined })
    expect(types).toEqual(['attempt_started', 'overrun_began', 'overrun_ended'])
  })

  it('is shown as timed out and still running', async () => {
    const { clock, store, queue, work } = await deaf('5m')
    await queue.enqueue(work, { name: 'a', ms: 340_000 }, { id: 'a' })
    await clock.advance(320_000)
    expect(await why(store, 'a')).toMatchObject({ answer: expect.stringContaining('timed out, and is still running') })
    await clock.advance('1m')
    expect(await listWorkers(store)).toMatchObject([{ overruns: [] }])
  })

  it('is waited for no longer than the grace period when its worker stops, and its timeout stays on record', async () => {
    const { clock, store, queue, work, worker, types } = await deaf('5m', { grace: '2s' })
    await queue.enqueue(work, { name: 'a', ms: 1e9 }, { id: 'a' })
    await clock.advance(310_000)
    const stopped = worker.stop()
    await clock.advance('2s')
    await stopped
    expect((await store.ledger('a')).map(({ verdict }) => verdict?.code)).toEqual(['timeout'])
    expect(types.slice(-2)).toEqual(['abandoned', 'retry_scheduled'])
  })

  it('is not mentioned if it ends within a second', async () => {
    const { clock, queue, work, types } = await deaf('5s')
    await queue.enqueue(work, { name: 'a', ms: 5900 })
    await clock.advance('6s')
    expect(types).toEqual(['attempt_started', 'timed_out', 'retry_scheduled'])
  })
})
