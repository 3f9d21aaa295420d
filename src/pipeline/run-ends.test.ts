import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FinalError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'

import { Worker } from '../task/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { type BatchContext, batch, pipeline, type StageContext, stage } from './index.js'
import { newSettings } from './run-settings.js'

let clock: FakeClock
let store: MemoryStore

beforeEach(() => {
  clock = fakeClock()
  store = new MemoryStore({ clock })
})

afterEach(() => store.close())

/** A pipeline whose items wait until they are let go. */
function gated() {
  let letGo: () => void = () => {}
  const gate = new Promise<void>(resolve => {
    letGo = resolve
  })
  let running = 0
  const line = pipeline(
    'gated',
    stage('only', async (n: number) => {
      running++
      await gate
      return n
    }),
  )
  return { line, letGo, running: () => running }
}

describe('amounts that are no numbers', () => {
  const INVALID: readonly unknown[] = [undefined, Number.NaN, null, -1, Infinity, '7']
  const rates = { tokens: { perSecond: 1000 } }

  it.each(INVALID)('are ignored if a stage says that it used %s, with one warning', async amount => {
    const name = `used-${String(amount)}`
    const warnings: Error[] = []
    const listener = (warning: Error) => warnings.push(warning)
    process.on('warning', listener)
    const use = (_: number, { used }: StageContext) => used({ tokens: amount as number })
    const line = pipeline(name, stage(name, use, { rates }))
    const result = await line.run([1, 2], { store, clock })
    await new Promise(resolve => setImmediate(resolve))
    process.off('warning', listener)
    expect(result).toMatchObject({ status: 'completed', counts: { succeeded: 2 } })
    expect(warnings.map(({ message }) => message)).toEqual([
      expect.stringContaining(`The used() of the stage '${name}'`),
    ])
  })

  it.each([undefined, null, 7])('are ignored if a stage says %s in place of amounts', async nothing => {
    const use = (_: number, { used }: StageContext) => used(nothing as never)
    const line = pipeline('nothing', stage('nothing', use, { rates }))
    expect(await line.run([1, 2], { store, clock })).toMatchObject({ status: 'completed', counts: { succeeded: 2 } })
  })

  it('are ignored if a batch stage says so', async () => {
    const use = async (inputs: readonly number[], { used }: BatchContext) => {
      used({ tokens: undefined as unknown as number })
      return inputs
    }
    const line = pipeline('batch', batch('batch', use, { size: 2, rates }))
    expect(await line.run([1, 2], { store, clock })).toMatchObject({ status: 'completed', counts: { succeeded: 2 } })
  })

  it.each(INVALID)('are ignored if the cost of an item has %s, at the first stage and later', async amount => {
    const cost = () => ({ tokens: amount as number })
    const pass = (n: number) => n
    const line = pipeline('costs', stage('one', pass, { rates, cost }), stage('two', pass, { rates, cost }))
    expect(await line.run([1, 2], { store, clock })).toMatchObject({ status: 'completed', counts: { succeeded: 2 } })
  })
})

describe('a stage and a bucket', () => {
  it.each(['constructor', '__proto__', 'toString'])('may be named %s', async name => {
    const rates = Object.fromEntries([[name, { perSecond: 1000 }]])
    const pass = (n: number, { used }: StageContext) => {
      used({ other: 1 })
      return n
    }
    const line = pipeline('odd', stage(name, pass, { rates, cost: () => ({ other: 1 }) }))
    const stageBudgets = Object.fromEntries([[name, 0.5]])
    const run = await line.start([1, 2], { store, clock, checkInterval: 1, stageBudgets })
    await clock.advance('5s')
    expect(await store.runs.get(run.id)).toMatchObject({ status: 'completed', counts: { succeeded: 2 } })
    await run.stop()
  })
})

describe('a run that its budget has stopped', () => {
  it('reads on when it is resumed while this process still works on it', async () => {
    let letGo: () => void = () => {}
    const gate = new Promise<void>(resolve => {
      letGo = resolve
    })
    const work = async (n: number) => {
      if (n === 2) await gate
      if (n < 40 && n % 2 === 1) throw new FinalError('odd')
      return n
    }
    const line = pipeline('line', stage('only', work, { timeout: '1h' }))
    const source = Array.from({ length: 300 }, (_, n) => n)
    const run = await line.start(source, { store, clock, failureBudget: 0.1, checkInterval: 10, maxUnfinished: 20 })
    await clock.advance('3s')
    expect(await store.runs.get(run.id)).toMatchObject({ status: 'stopped', sourceError: undefined })
    await run.change({ failureBudget: 1 })
    await run.resume()
    await clock.advance('10s')
    letGo()
    await clock.advance('10s')
    expect(await store.runs.get(run.id)).toMatchObject({ position: 300, counts: { succeeded: 280, dead: 20 } })
    expect(await run.result).toMatchObject({ total: 300 })
  })
})

describe('a source that cannot be opened', () => {
  const fail = (): never => {
    throw new Error('no access')
  }
  const sources = [{ [Symbol.iterator]: fail }, { [Symbol.asyncIterator]: fail }, { readFrom: fail }]

  it.each(sources)('interrupts the run, like one that fails later', async source => {
    const { line } = gated()
    const result = await line.run(source, { store, clock, id: 'r' })
    expect(result).toMatchObject({ status: 'interrupted', total: 0 })
    expect(await store.runs.get('r')).toMatchObject({ sourceError: expect.stringContaining('no access') })
  })
})

describe('the end of a run', () => {
  it('is on record when its last item ends in the grace period of a handle', async () => {
    const { line, letGo, running } = gated()
    const run = await line.start([1], { store, clock, id: 'r' })
    await clock.advance('2s')
    expect(running()).toBe(1)
    const stopped = run.stop()
    await clock.advance('1s')
    letGo()
    await clock.advance('1s')
    await stopped
    expect(await store.runs.get('r')).toMatchObject({ status: 'completed', counts: { succeeded: 1 } })
    expect(await run.result).toMatchObject({ status: 'completed' })
  })

  it('is on record when its last item ends in the grace period of a worker', async () => {
    const { line, letGo, running } = gated()
    const reader = await line.start([1], { store, clock, id: 'r', grace: 0 })
    await clock.advance('2s')
    await reader.stop()
    const worker = new Worker(store, { pipelines: [line], clock })
    await worker.start()
    await clock.advance('2s')
    expect(running()).toBe(2)
    const stopped = worker.stop()
    letGo()
    await clock.advance('1s')
    await stopped
    expect(await store.runs.get('r')).toMatchObject({ status: 'completed', counts: { succeeded: 1 } })
  })

  it('is noticed by any worker, at its start and later, if the process that ended the last item died', async () => {
    const { line } = gated()
    const leave = async (id: string) => {
      const reader = { name: 'dead', leaseMs: 1000 }
      const settings = newSettings({})
      await store.runs.open({ id, pipeline: line.name, version: 'v', stages: ['only'], settings, reader })
      await store.runs.take(id, { reader: 'dead', leaseMs: 1000, position: 0, items: [], isEnd: true })
      expect(await store.runs.get(id)).toMatchObject({ status: 'running' })
    }
    await leave('early')
    const worker = new Worker(store, { pipelines: [line], clock })
    await worker.start()
    await clock.advance('1s')
    expect(await store.runs.get('early')).toMatchObject({ status: 'completed' })
    await leave('late')
    await clock.advance('1m')
    expect(await store.runs.get('late')).toMatchObject({ status: 'completed' })
    await worker.stop()
  })

  it('may fail to be noticed, and the worker stops all the same', async () => {
    const { line, letGo } = gated()
    const run = await line.start([1], { store, clock, id: 'r' })
    await clock.advance('2s')
    store.runs.check = () => Promise.reject(new Error('away'))
    const stopped = run.stop()
    letGo()
    await clock.advance('1s')
    await stopped
    expect(await store.runs.get('r')).toMatchObject({ status: 'running', counts: { succeeded: 1 } })
  })
})
