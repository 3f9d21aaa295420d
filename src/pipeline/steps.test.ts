import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { explainTask } from '../operate/index.js'
import { FinalError } from '../policy/index.js'
import { MemoryStore, stepRecord } from '../store/internal.js'
import { Worker } from '../task/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { pipeline, stage } from './index.js'

let clock: FakeClock
let store: MemoryStore

beforeEach(() => {
  clock = fakeClock()
  store = new MemoryStore({ clock })
})

afterEach(() => store.close())

const RETRY = { attempts: 2, backoff: ['1m'], jitter: 'none' } as const

async function steps(id: string) {
  return (await store.steps(id)).map(stepRecord).map(({ name, result }) => [name, result])
}

describe('the steps of an item', () => {
  it('are kept for each stage, and run once however often the stage does', async () => {
    const keys: string[] = []
    const call = vi.fn((text: string, key: string) => {
      keys.push(key)
      return text
    })
    let failures = 1
    const line = pipeline(
      'line',
      stage('one', async (_: number, { step }) => step('call', ({ key }) => call('first', key))),
      stage(
        'two',
        async (before: string, { step }) => {
          const second = await step('call', ({ key }) => call('second', key))
          if (failures-- > 0) throw new Error('between')
          return [before, second]
        },
        { policy: RETRY },
      ),
    )
    const run = line.run([7], { id: 'r', itemId: () => 'a', store, clock })
    await clock.advance('2m')
    expect(await run).toMatchObject({ status: 'completed', counts: { succeeded: 1 } })
    expect(await store.get('r:a')).toMatchObject({ result: '["first","second"]' })
    expect(await steps('r:a')).toEqual([
      ['one/call', '"first"'],
      ['two/call', '"second"'],
    ])
    expect(keys).toEqual(['r:a/one/call', 'r:a/two/call'])
  })

  it('kill the item when they fail for good, and a reprocessed item goes on behind those that are done', async () => {
    const first = vi.fn(() => 1)
    let isDown = true
    const line = pipeline(
      'line',
      stage('pay', async (_: number, { step }) => {
        const one = await step('first', first)
        return step('second', () => {
          if (isDown) throw new FinalError('declined', { code: 'declined' })
          return one + 1
        })
      }),
    )
    await line.run([7], { id: 'r', itemId: () => 'a', store, clock })
    expect(await explainTask(store, 'r:a')).toMatchObject({
      status: 'dead',
      errorCode: 'declined',
      errorMessage: "FinalError: step 'pay/second': declined",
      cause: { text: expect.stringContaining("Its step 'pay/second' was given up.") },
      history: [{ step: 'pay/second' }],
    })
    await clock.advance('1s')
    isDown = false
    await store.runs.reprocess({ pipeline: 'line', run: 'r' }, { limit: 10, by: { who: 'ann' } })
    const worker = new Worker(store, { pipelines: [line], clock, name: 'w1' })
    await worker.start()
    await clock.advance('1s')
    expect(await store.get('r:a')).toMatchObject({ status: 'succeeded', result: '2' })
    expect(first).toHaveBeenCalledTimes(1)
    await worker.stop()
  })

  it('of other stages are not said to be left out', async () => {
    let round = 0
    const line = pipeline(
      'line',
      stage('one', async (_: number, { step }) => step('a', () => 1)),
      stage(
        'two',
        async (_: number, { step }) => {
          await step(round++ === 0 ? 'old' : 'new', () => 2)
          if (round === 1) throw new Error('again')
        },
        { policy: RETRY },
      ),
    )
    const run = line.run([7], { id: 'r', itemId: () => 'a', store, clock })
    await clock.advance('2m')
    await run
    expect((await store.ledger('r:a')).map(({ notes }) => notes?.unusedSteps)).toEqual([
      undefined,
      undefined,
      ['two/old'],
    ])
  })
})

describe('the progress and the log of an item', () => {
  it('stay with the row of the stage that failed', async () => {
    const line = pipeline(
      'line',
      stage('one', (n: number, { log }) => {
        log('reading')
        return n
      }),
      stage('two', (_: number, { log, progress }) => {
        log('writing')
        progress(0.5, 'half')
        throw new FinalError('no')
      }),
    )
    await line.run([7], { id: 'r', itemId: () => 'a', store, clock })
    const { history = [], notes } = (await explainTask(store, 'r:a')) ?? {}
    expect(history.map(({ log }) => log.map(({ text }) => text))).toEqual([[], ['writing']])
    expect(notes).toMatchObject({ progress: { fraction: 0.5, text: 'half' }, log: [{ text: 'writing' }] })
  })

  it('come with the heartbeats of its worker, though the item has gone on to another stage in it', async () => {
    let release = () => {}
    const going = new Promise<void>(resolve => {
      release = resolve
    })
    const line = pipeline(
      'line',
      stage('one', (n: number) => n),
      stage('two', async (_: number, { log }) => {
        log('writing')
        await going
      }),
    )
    const run = line.run([7], { id: 'r', itemId: () => 'a', store, clock })
    await clock.advance('10s')
    expect(await explainTask(store, 'r:a')).toMatchObject({
      category: 'two',
      notes: { isRunning: true, log: [{ text: 'writing' }] },
    })
    release()
    await clock.advance('1s')
    await run
  })
})
