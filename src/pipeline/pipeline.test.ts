import { describe, expect, it } from 'vitest'
import { MemoryStore } from '../store/index.js'
import { pipeline } from './pipeline.js'
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
})
