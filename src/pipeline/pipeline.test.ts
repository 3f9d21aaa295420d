import { describe, expect, it } from 'vitest'
import { OptionError } from '../policy/index.js'
import { MemoryStore } from '../store/index.js'
import { defineTask, encrypted } from '../task/index.js'
import { batch } from './batch.js'
import { pipeline } from './pipeline.js'
import type { RunEnd } from './run-options.js'
import { stage } from './stage.js'

describe('pipeline()', () => {
  it('takes its stages as arguments or as a list', async () => {
    const parse = stage('parse', (text: string) => Number(text))
    const double = stage('double', async (n: number) => n * 2)
    for (const doubling of [pipeline('doubling', parse, double), pipeline('doubling', [parse, double])]) {
      const result = await doubling.run(['1', '2'], { store: new MemoryStore() })
      expect(result.counts.succeeded).toBe(2)
    }
  })

  it('refuses what is not a stage', () => {
    const make = (args: readonly unknown[]) => Reflect.apply(pipeline, undefined, args)
    const parse = stage('parse', (text: string) => Number(text))
    expect(() => make(['p', (x: number) => x])).toThrow(
      "Stage 1 of 'p' is not a stage. Make it with stage() or batch().",
    )
    expect(() => make(['p', parse, undefined])).toThrow("Stage 2 of 'p' is not a stage.")
    expect(() => make(['p', 'parse'])).toThrow(OptionError)
  })

  it('refuses codecs, and an encrypted task at its end: it would store their values as plain text', async () => {
    const only = stage('only', (n: number) => n)
    const codec = encrypted({ keys: { k: 'ab'.repeat(32) }, current: 'k' })
    const make = (options: object) => Reflect.apply(pipeline, undefined, [options, only])
    expect(() => make({ name: 'line', codec })).toThrow('Pipelines have no codec')
    const task = defineTask('report', { codec, handler: (_: RunEnd) => {} })
    const ends = pipeline('line', only).run([1], { store: new MemoryStore(), onEnd: { task } })
    await expect(ends).rejects.toThrow("'onEnd' cannot be the task 'report'")
  })

  it('needs a store to run', async () => {
    const line = pipeline(
      'line',
      stage('only', (n: number) => n),
    )
    const call = async (method: 'run' | 'resume', ...args: readonly unknown[]) =>
      Reflect.apply(line[method], line, args)
    await expect(call('run', [1])).rejects.toThrow("'store' must be a new MemoryStore()")
    await expect(call('run', [1], {})).rejects.toThrow("'store' must be a new MemoryStore()")
    await expect(call('resume', 'r')).rejects.toThrow("'store' must be a new MemoryStore()")
  })
})

describe('batch()', () => {
  it('needs a size', () => {
    const make = () => Reflect.apply(batch, undefined, ['embed', (texts: readonly string[]) => texts])
    expect(make).toThrow("The batch stage 'embed' needs a 'size': { size: 100 }, say.")
  })
})
