import { describe, expect, it } from 'vitest'
import { listWorkers, why } from '../operate/index.js'
import { MemoryStore } from '../store/internal.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { defineTask, TaskQueue, Worker, type WorkerOptions } from './index.js'

const settle = (clock: FakeClock) => clock.advance(0)

/** A worker of a task that runs until the test ends it. */
function bench(options: Partial<WorkerOptions> = {}) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store)
  const ends: (() => void)[] = []
  let running = 0
  const work = defineTask('work', {
    handler: () => {
      running++
      return new Promise<void>(resolve => ends.push(resolve)).finally(() => running--)
    },
  })
  const worker = new Worker(store, { tasks: [work], clock, name: 'w', concurrency: 2, ...options })
  const add = (count: number) =>
    queue.enqueueMany(
      work,
      Array.from({ length: count }, () => ({ payload: null })),
    )
  const counts = async () => {
    const { waiting, running: claimed } = await store.count({})
    return { waiting, claimed, running }
  }
  return { clock, store, work, worker, add, counts, end: () => ends.shift()?.() }
}

describe('a paused worker', () => {
  it('lets running tasks end, starts no others, and goes on where it was', async () => {
    const { clock, store, worker, add, counts, end } = bench()
    await worker.start()
    await add(4)
    await settle(clock)
    worker.pause()
    expect(worker.isPaused).toBe(true)
    end()
    await settle(clock)
    await clock.advance('10m')
    expect(await counts()).toEqual({ waiting: 2, claimed: 1, running: 1 })
    expect((await store.count({})).succeeded).toBe(1)
    worker.resume()
    await settle(clock)
    expect(await counts()).toEqual({ waiting: 1, claimed: 2, running: 2 })
    worker.resume()
    expect(worker.isPaused).toBe(false)
  })

  it('hands back what a claim brings that was under way', async () => {
    const { clock, store, worker, add, counts } = bench()
    const claim = store.claim.bind(store)
    Object.assign(store, {
      claim: async (...args: Parameters<typeof claim>) => {
        const answer = await claim(...args)
        if (answer.tasks.length > 0) worker.pause()
        return answer
      },
    })
    await worker.start()
    const [{ id = '' } = {}] = await add(1)
    await settle(clock)
    expect(await counts()).toEqual({ waiting: 1, claimed: 0, running: 0 })
    expect(await store.get(id)).toMatchObject({ attempts: 0, losses: 0 })
    expect(await store.ledger(id)).toEqual([])
  })

  it('may be paused before it starts, and stops as any other', async () => {
    const { clock, store, worker, add, counts } = bench()
    worker.pause()
    await worker.start()
    await add(1)
    await settle(clock)
    expect(await counts()).toEqual({ waiting: 1, claimed: 0, running: 0 })
    await worker.stop()
    expect(await store.workers()).toEqual([])
  })

  it('is shown as such, at once, and why names it if no other worker runs the kind', async () => {
    const { clock, store, work, worker, add } = bench()
    await worker.start()
    worker.pause()
    await settle(clock)
    const [{ id = '' } = {}] = await add(1)
    expect(await listWorkers(store)).toMatchObject([{ name: 'w', isPaused: true }])
    expect((await why(store, id))?.causes).toMatchObject([
      {
        code: 'workers_paused',
        text: "The only live worker that runs its kind 'work' is paused by code: w.",
        facts: { paused: ['w'] },
      },
    ])
    const other = new Worker(store, { tasks: [work], clock, name: 'x' })
    other.pause()
    await other.start()
    expect((await why(store, id))?.answer).toBe("All live workers that run its kind 'work' are paused by code: w, x.")
    worker.resume()
    await settle(clock)
    expect(await listWorkers(store)).toMatchObject([
      { name: 'w', isPaused: false },
      { name: 'x', isPaused: true },
    ])
    expect((await why(store, id))?.causes[0]?.code).toBe('running')
  })

  it('ends a drain at its deadline, with nothing run', async () => {
    const { clock, worker, add, counts } = bench()
    await add(1)
    worker.pause()
    const drained = worker.drain({ deadline: '10s' })
    await clock.advance('11s')
    expect(await drained).toMatchObject({ ran: 0, ended: 'deadline' })
    expect(await counts()).toMatchObject({ waiting: 1 })
  })
})

describe('the concurrency of a worker', () => {
  it('can be raised and lowered while it runs', async () => {
    const { clock, worker, add, counts, end } = bench()
    await worker.start()
    await add(10)
    await settle(clock)
    expect(await counts()).toMatchObject({ running: 2 })
    worker.concurrency = 5
    expect(worker.concurrency).toBe(5)
    await settle(clock)
    expect(await counts()).toMatchObject({ running: 5 })
    worker.concurrency = 1
    for (const left of [4, 3, 2, 1, 1]) {
      end()
      await settle(clock)
      expect(await counts()).toMatchObject({ running: left })
    }
  })

  it('is refused where it cannot be, and stays as it was', () => {
    const { worker } = bench({ concurrency: 4, reserve: { work: 3 } })
    for (const wrong of [0, 1.5, Number.NaN])
      expect(() => {
        worker.concurrency = wrong
      }).toThrow("'concurrency' must be a whole number, 1 or more")
    expect(() => {
      worker.concurrency = 2
    }).toThrow("'reserve' asks for 3 slots, but 'concurrency' is 2.")
    expect(worker.concurrency).toBe(4)
  })
})
