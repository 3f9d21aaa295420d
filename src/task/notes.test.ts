import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { encrypted } from '../codec/index.js'
import { explainTask } from '../operate/index.js'
import { FinalError } from '../policy/index.js'
import { MemoryStore, type StoreContract } from '../store/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'
import { fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { defineTask, type TaskContext, type TaskDefinition, TaskQueue, Worker } from './index.js'

const BEAT = '10s'
const POLICY = { attempts: 2, backoff: ['1m'], jitter: 'none' } as const

/** A task whose handler tells of its attempt, and then goes on until it is let go. */
async function scene(tell: (task: TaskContext) => void, end: () => unknown = () => 'done', kind = 'import') {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  let release = () => {}
  const going = new Promise<void>(resolve => {
    release = resolve
  })
  const task: TaskDefinition = defineTask(kind, {
    policy: POLICY,
    handler: async (_: unknown, context) => {
      tell(context)
      await going
      return end()
    },
  })
  const add = async (name: string) => {
    const worker = new Worker(store, { tasks: [task], clock, name })
    await worker.start()
    await clock.advance(0)
    return worker
  }
  await new TaskQueue(store).enqueue(task, null, { id: 't' })
  const worker = await add('w1')
  const go = async () => {
    release()
    await clock.advance(0)
  }
  return { clock, store, worker, add, go, explain: async () => explainTask(store, 't') }
}

describe('the progress and the log of an attempt', () => {
  it('come with the next heartbeat of its worker, and can be read while it runs', async () => {
    const { clock, go, explain } = await scene(task => {
      task.log('opened the file')
      task.progress(0.25)
      task.progress(0.4, 'page 3 of 8')
    })
    const at = new Date(clock.now()).toISOString()
    expect((await explain())?.notes).toBe(null)
    await clock.advance(BEAT)
    expect((await explain())?.notes).toEqual({
      attempt: 1,
      isRunning: true,
      at: new Date(clock.now()).toISOString(),
      progress: { fraction: 0.4, text: 'page 3 of 8' },
      log: [{ at, text: 'opened the file' }],
    })
    await go()
    const after = await explain()
    expect(after).toMatchObject({ status: 'succeeded', notes: null, history: [{ progress: null, log: [] }] })
  })

  it('stay with the row of an attempt that failed, and of the one that it died of', async () => {
    const { clock, store, go, explain } = await scene(
      task => {
        task.log(`attempt ${task.attempt}`)
        task.progress(task.attempt / 10)
      },
      () => {
        throw new Error('down')
      },
    )
    await go()
    expect((await explain())?.notes).toMatchObject({ attempt: 1, isRunning: false, log: [{ text: 'attempt 1' }] })
    await clock.advance('1m')
    expect(await explain()).toMatchObject({
      status: 'dead',
      notes: { attempt: 2, progress: { fraction: 0.2 }, log: [{ text: 'attempt 2' }] },
    })
    expect((await store.ledger('t')).map(({ notes }) => notes?.log?.length)).toEqual([1, 1])
  })

  it('stay with an attempt that timed out, was cancelled or lost its lease', async () => {
    const { clock, store, go, explain } = await scene(task => task.log('halfway'))
    await store.cancel(['t'], { who: 'ann' })
    await clock.advance(0)
    await go()
    expect(await explain()).toMatchObject({ status: 'cancelled', notes: { log: [{ text: 'halfway' }] } })

    const slow = await scene(task => task.log('halfway'))
    await slow.clock.advance('1h')
    await slow.go()
    expect(await slow.explain()).toMatchObject({
      status: 'waiting',
      errorCode: 'timeout',
      notes: { log: [{ text: 'halfway' }] },
    })
  })

  it('of a worker that was killed stay with the row of the loss, up to its last heartbeat', async () => {
    let context: TaskContext | undefined
    const { clock, store, add, explain } = await scene(task => {
      context = task
      task.log('before the heartbeat')
    })
    await clock.advance(BEAT)
    context?.log('after the heartbeat')
    const heartbeat = vi.spyOn(store, 'heartbeat').mockImplementation(() => new Promise(() => {}))
    await clock.advance('29s')
    heartbeat.mockRestore()
    await clock.advance('1s')
    await add('w2')
    const { history = [] } = (await explain()) ?? {}
    expect(history).toMatchObject([{ outcome: 'lost', log: [{ text: 'before the heartbeat' }] }])
  })

  it('stay with a step that fails, beside its name', async () => {
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    const task = defineTask('signup', {
      handler: async (_: null, context) => {
        context.progress(0.5)
        await context.step('charge', () => {
          context.log('calling the bank')
          throw new FinalError('declined')
        })
      },
    })
    await new TaskQueue(store).enqueue(task, null, { id: 't' })
    await new Worker(store, { tasks: [task], clock, name: 'w1' }).start()
    await clock.advance(0)
    expect((await store.ledger('t'))[0]?.notes).toEqual({
      step: 'charge',
      progress: { fraction: 0.5 },
      log: [{ at: clock.now(), text: 'calling the bank' }],
    })
  })

  it('cost nothing: ten thousand calls ask the store for nothing, and the heartbeat is one as ever', async () => {
    const asked: string[] = []
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    let context: TaskContext | undefined
    const task = defineTask('import', {
      handler: (_: null, given) => {
        context = given
        return new Promise(() => {})
      },
    })
    await new TaskQueue(store).enqueue(task, null, { id: 't' })
    await new Worker(watched(store, asked), { tasks: [task], clock }).start()
    await clock.advance(0)
    asked.length = 0
    for (let call = 0; call < 10_000; call++) {
      context?.progress(call / 10_000, `row ${call}`)
      context?.log(`row ${call}`)
      if (call % 1000 === 0) await clock.advance(0)
    }
    expect(asked).toEqual([])
    await clock.advance(BEAT)
    expect(asked.filter(verb => verb === 'heartbeat')).toHaveLength(1)
    const [worker] = await store.workers()
    const { notes } = worker?.notes?.t ?? {}
    expect(notes?.progress).toEqual({ fraction: 0.9999, text: 'row 9999' })
    expect(notes?.log?.map(({ text }) => text)).toEqual(Array.from({ length: 100 }, (_, n) => `row ${9900 + n}`))
  })

  it('commit nothing to a file', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'redrive-notes-'))
    const store = await openSqlite(join(folder, 'redrive.db'))
    const other = new Database(join(folder, 'redrive.db'))
    onTestFinished(async () => {
      other.close()
      await store.close()
      rmSync(folder, { recursive: true })
    })
    const commits: unknown[] = []
    const task = defineTask('import', {
      handler: async (_: null, { progress, log }) => {
        for (let call = 0; call <= 10_000; call++) {
          progress(call / 10_000)
          log(`row ${call}`)
          if (call % 1000 !== 0) continue
          commits.push(other.pragma('data_version', { simple: true }))
          await setImmediate()
        }
      },
    })
    await new TaskQueue(store).enqueue(task, null, { id: 't' })
    await new Worker(store, { tasks: [task], lease: '1h' }).drain()
    expect(commits).toHaveLength(11)
    expect(new Set(commits).size).toBe(1)
  })
})

describe('notes', () => {
  const SECRET = 'password=hunter2'
  it.each<[string, (task: TaskContext) => void, object]>([
    [
      'lose their secrets',
      task => task.log(`connect with ${SECRET}`),
      { log: [{ text: 'connect with password=[redacted]' }] },
    ],
    ['are on one line', task => task.log('a\r\nb\tc\u0007\u202e'), { log: [{ text: 'a b c\ufffd\ufffd' }] }],
    [
      'may be of ten megabytes',
      task => task.log('x'.repeat(1e7)),
      { log: [{ text: `${'x'.repeat(1000)}… (10000000 characters)` }] },
    ],
    ['may be no text', task => task.log(new Error('boom') as never), { log: [{ text: 'Error: boom' }] }],
    ['may be nothing at all', task => task.log(undefined as never), { log: [{ text: 'undefined: undefined' }] }],
    ['may be empty', task => task.log(''), { log: [{ text: '' }] }],
    [
      'have progress that a rounding error missed',
      task => task.progress(0.7 + 0.1 + 0.2 + 1e-12),
      { progress: { fraction: 1 } },
    ],
    [
      'have text for a progress',
      task => task.progress(0, SECRET),
      { progress: { fraction: 0, text: 'password=[redacted]' } },
    ],
  ])('%s', async (_, tell, expected) => {
    const { clock, store } = await scene(tell)
    await clock.advance(BEAT)
    expect((await store.workers())[0]?.notes?.t?.notes).toMatchObject(expected)
  })

  it.each([Number.NaN, Infinity, -0.1, 40, '0.5', null, undefined, 1n, {}])(
    'leave out the progress %s, with a warning for its kind, and the task goes on',
    async fraction => {
      const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
      onTestFinished(() => warned.mockRestore())
      const kind = `import-${crypto.randomUUID()}`
      const { clock, store, go, explain } = await scene(
        task => {
          for (let time = 0; time < 3; time++) task.progress(fraction as number, 'text')
          task.log('went on')
        },
        undefined,
        kind,
      )
      expect(warned).toHaveBeenCalledTimes(1)
      expect(warned.mock.calls[0]?.[0]).toContain(`The progress of a task is a number from 0 to 1, and '${kind}' gave`)
      await clock.advance(BEAT)
      expect((await store.workers())[0]?.notes?.t?.notes).toEqual({
        log: [{ at: expect.any(Number), text: 'went on' }],
      })
      await go()
      expect(await explain()).toMatchObject({ status: 'succeeded' })
    },
  )

  it('of a kind that is encrypted are encrypted, and readable with its codec', async () => {
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    const task = defineTask('import', {
      codec: encrypted({ keys: { k1: randomBytes(32) }, current: 'k1' }),
      policy: { attempts: 1 },
      handler: async (_: null, { log, progress }) => {
        log('reading the row of Ada')
        progress(0.5, 'the row of Ada')
        await sleep(15_000, clock)
        throw new Error('down')
      },
    })
    await new TaskQueue(store).enqueue(task, null, { id: 't' })
    await new Worker(store, { tasks: [task], clock }).start()
    await clock.advance(BEAT)
    const shown = async (tasks?: readonly TaskDefinition[]) => {
      const { notes, history } = (await explainTask(store, 't', { tasks })) ?? {}
      return [notes?.progress?.text, notes?.log[0]?.text, history?.[0]?.log[0]?.text]
    }
    expect(JSON.stringify(await store.workers())).not.toContain('Ada')
    expect(await shown([task])).toEqual(['the row of Ada', 'reading the row of Ada', undefined])
    await clock.advance(BEAT)
    expect(JSON.stringify(await store.ledger('t'))).not.toContain('Ada')
    expect(await shown([task])).toEqual(['the row of Ada', 'reading the row of Ada', 'reading the row of Ada'])
    expect(await shown()).toEqual(['(encoded)', '(encoded)', '(encoded)'])
  })

  it('of an attempt take up 16 KB, those of a worker share 1 MB, and the last lines are kept', async () => {
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    const task = defineTask('import', {
      handler: (_: null, { log }) => {
        for (let line = 0; line < 150; line++) log(`${line} ${'é'.repeat(500)}`)
        return new Promise(() => {})
      },
    })
    const queue = new TaskQueue(store)
    const worker = new Worker(store, { tasks: [task], clock, concurrency: 300 })
    await worker.start()
    const sizes = async () => {
      await clock.advance(BEAT)
      const [{ notes = {} } = { notes: {} }] = await store.workers()
      const texts = Object.values(notes).map(one => JSON.stringify(one))
      for (const text of texts) expect(text).toContain('"149 é')
      return texts.map(text => Buffer.byteLength(text))
    }
    await queue.enqueue(task, null)
    const [alone = 0] = await sizes()
    expect(alone).toBeGreaterThan(15_000)
    expect(alone).toBeLessThan(2 ** 14)
    await queue.enqueueMany(task, Array(299).fill({ payload: null }))
    const all = await sizes()
    expect(all).toHaveLength(300)
    const total = all.reduce((sum, size) => sum + size)
    expect(total).toBeGreaterThan(2 ** 19)
    expect(total).toBeLessThan(2 ** 20)
  })
})

/** A store that notes the verbs that it is asked for. */
function watched(store: StoreContract, asked: string[]): StoreContract {
  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        asked.push(String(name))
        return Reflect.apply(value, target, args)
      }
    },
  })
}
