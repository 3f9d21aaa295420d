import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { pausingAfter, sampledFirst, sampleJsonl } from './sample.js'
import type { ResumableSource, SourceItem } from './source.js'

const folder = mkdtempSync(join(tmpdir(), 'redrive-sample-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function fileOf(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

async function all<T>(source: ResumableSource<T>, cursor?: string): Promise<SourceItem<T>[]> {
  const steps: SourceItem<T>[] = []
  for await (const step of source.readFrom(cursor)) steps.push(step)
  return steps
}

/** Numbers that a test can repeat. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48271) % 2147483647
    return state / 2147483647
  }
}

describe('a sample of a file', () => {
  const lines = Array.from({ length: 100 }, (_, i) => `{"n":${i}}`)
  const path = fileOf('hundred.jsonl', `${lines.slice(0, 50).join('\n')}\n\n  \n${lines.slice(50).join('\n')}\n`)

  it('counts items without blank lines, and draws each item as often as any other', async () => {
    const random = randomFrom(7)
    const drawn = new Array<number>(100).fill(0)
    for (let round = 0; round < 400; round++) {
      const sample = await sampleJsonl(path, 10, random)
      expect(sample.total).toBe(100)
      expect(sample.lines.length).toBe(10)
      for (const { place } of sample.lines) drawn[place] = (drawn[place] ?? 0) + 1
    }
    // 40 each, with a standard deviation of 6.
    expect(Math.min(...drawn)).toBeGreaterThan(15)
    expect(Math.max(...drawn)).toBeLessThan(70)
  })

  it('is the whole file if that is not larger', async () => {
    const { lines: drawn, total } = await sampleJsonl(path, 500)
    expect([drawn.length, total]).toEqual([100, 100])
    expect(await all(sampledFirst(path, { lines: drawn, total }))).toHaveLength(100)
  })

  it('comes first, and every other item follows once, from any place where it is resumed', async () => {
    const sample = await sampleJsonl(path, 7, randomFrom(3))
    const source = sampledFirst<{ n: number }>(path, sample)
    const steps = await all(source)
    const places = sample.lines.map(({ place }) => place)
    const order = [...places, ...[...lines.keys()].filter(place => !places.includes(place))]
    expect(steps.map(({ item }) => item.n)).toEqual(order)
    for (const taken of [1, 6, 7, 8, 50, 57, 99, 100]) {
      const resumed = await all(source, steps[taken - 1]?.cursor)
      expect(resumed.map(({ item }) => item.n)).toEqual(order.slice(taken))
    }
  })

  it('names file and line of what is not JSON', async () => {
    const broken = fileOf('broken.jsonl', '1\n\n{"a":\n')
    const sample = await sampleJsonl(broken, 10)
    await expect(all(sampledFirst(broken, sample))).rejects.toThrow(`${broken}:3`)
  })
})

it('a source waits after its first items until it may go on', async () => {
  const path = fileOf('three.jsonl', '1\n2\n3\n')
  let goOn = () => {}
  const promise = new Promise<void>(resolve => {
    goOn = resolve
  })
  const reader = pausingAfter(sampledFirst(path, await sampleJsonl(path, 2)), 2, promise).readFrom(undefined)
  const iterator = reader[Symbol.asyncIterator]()
  await iterator.next()
  await iterator.next()
  const third = iterator.next()
  const waited = await Promise.race([third.then(() => 'went on'), new Promise(done => setTimeout(done, 30, 'waits'))])
  expect(waited).toBe('waits')
  goOn()
  expect((await third).done).toBe(false)
})
