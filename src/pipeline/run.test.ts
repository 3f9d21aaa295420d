import { describe, expect, it } from 'vitest'
import { MemoryStore } from '../store/index.js'
import { skip } from '../task/index.js'
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
})
