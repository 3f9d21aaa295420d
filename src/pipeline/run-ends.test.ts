import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { MemoryStore } from '../store/index.js'
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
