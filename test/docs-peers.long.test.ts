import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { blocks, runBlock, typeErrors, writeBlocks } from './doc-blocks.js'
import { ROOT } from './subpaths.js'

/** Below bench/node_modules, where the other libraries are installed. */
const OUT = join(ROOT, 'bench/node_modules/.redrive-docs')
const peers = blocks.filter(({ isPeer }) => isPeer)

describe('the code of other libraries in the docs', () => {
  beforeAll(async () => {
    const install = "import('./bench/install-peers.mjs').then(({ installPeers }) => installPeers())"
    await promisify(execFile)(process.execPath, ['--eval', install], { cwd: ROOT })
    writeBlocks(OUT, peers)
  }, 300_000)
  afterAll(() => rmSync(OUT, { recursive: true, force: true }))

  it('type-checks', { timeout: 240_000 }, () => {
    expect(peers.length).toBeGreaterThan(0)
    expect(typeErrors(OUT, peers)).toEqual([])
  })

  it.each(peers.filter(({ runs }) => runs))('runs: $name', { timeout: 60_000 }, block => runBlock(OUT, block))
})
