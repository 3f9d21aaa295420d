import { describe, expect, it } from 'vitest'
import { MemoryStore } from '../store/index.js'
import { skip } from '../task/index.js'
import { fakeClock } from '../testing/index.js'
import { pipeline } from './pipeline.js'
import { stage } from './stage.js'

describe('a run', () => {
  it('takes all items through all stages', async () => {
    const store = new MemoryStore()
    const double = pipeline(
      'double',
      stage('parse', (text: string) => Number(text)),
      stage('double', async n => n * 2),
      stage('filter', n => (n > 4 ? n : skip('too small'))),
    )
    const run = await double.start(['1', '2', '3', '4'], { store })
    const result = await run.result
    expect(result).toMatchObject({
      status: 'completed',
      total: 4,
      successRate: 1,
      counts: { succeeded: 2, skipped: 2 },
    })
    const values = []
    for await (const { value } of run.results()) values.push(value)
    expect(values).toEqual([6, 8])
  })

  it('ends when its last item is on record, and waits for no timer', async () => {
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    const counts = Array.from({ length: 20 }, (_, run) => run + 1)
    const pass = pipeline(
      'pass',
      stage('only', (n: number) => n),
    )
    for (const count of counts) {
      const items = Array.from({ length: count }, (_, n) => n)
      const result = await pass.run(items, { store, clock })
      expect(result).toMatchObject({ status: 'completed', counts: { succeeded: count } })
    }
  })
})
