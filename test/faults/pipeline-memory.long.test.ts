import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Child } from './child-process.js'
import type { MemoryChildOptions, MemoryChildReport } from './pipeline-memory-child.js'

const MOST_MB = 120

describe('a run of one million items', { timeout: 1_800_000 }, () => {
  it('takes no more memory than its window of unfinished items', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'redrive-faults-'))
    const options: MemoryChildOptions = { url: `sqlite:${join(folder, 'redrive.db')}`, count: 1_000_000 }
    const child = new Child<MemoryChildReport>('pipeline-memory-child.ts', options)
    try {
      const { counts, grownMb } = await child.report()
      process.stdout.write(`[faults] one million items: ${grownMb.toFixed(0)} MB\n`)
      expect(counts.succeeded).toBe(1_000_000)
      expect(grownMb).toBeLessThanOrEqual(MOST_MB)
    } finally {
      await child.kill()
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
