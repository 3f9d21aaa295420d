import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '..')
const examples = readdirSync(join(ROOT, 'examples')).filter(file => file.endsWith('.ts'))
const folder = mkdtempSync(join(tmpdir(), 'redrive-examples-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What it printed, once it has ended well. */
async function outputOf(file: string) {
  const args = ['--import', join(ROOT, 'node_modules/tsx/dist/esm/index.mjs'), join(ROOT, 'examples', file)]
  const env = { ...process.env, TSX_TSCONFIG_PATH: join(ROOT, 'tsconfig.json') }
  // What an example keeps, it keeps in the folder it is run in.
  const cwd = join(folder, file)
  mkdirSync(cwd, { recursive: true })
  return promisify(execFile)(process.execPath, args, { cwd, env, timeout: 120_000 })
}

describe.concurrent('an example', { timeout: 240_000 }, () => {
  it.each(examples)('%s runs, checks itself and says something', async file => {
    expect((await outputOf(file)).stdout).not.toBe('')
  })

  it('the demo of calls ends by itself and accounts for every call', async () => {
    const { stdout } = await outputOf('calls-demo/main.ts')
    expect(stdout).toMatch(/300 calls, \d+ HTTP requests/)
    expect(stdout).toMatch(/succeeded at once\s+\d+/)
    expect(stdout).toMatch(/in all\s+300/)
  })

  it('the pipeline accounts for every sample, and runs the dead ones again with new code', async () => {
    const { stdout } = await outputOf('pipeline/main.ts')
    expect(stdout).toContain('400 samples: 380 succeeded, 16 skipped, 4 dead.')
    expect(stdout).toContain('http_422 in llm_call: 4 failed attempts, 4 dead')
    expect(stdout).toContain('4 dead items go on at llm_call, with version v2.')
    expect(stdout).toContain('The run is completed: 384 succeeded, 16 skipped, 0 dead.')
  })

  it('the demo of `npm start` ends by itself, accounts for every task, and continues the next time', async () => {
    const { stdout } = await outputOf('demo/main.ts')
    expect(stdout).toMatch(/in all\s+3000/)
    expect(stdout).toMatch(/The ledger: \d+ attempts/)
    expect(stdout).toMatch(/attempts_exhausted/)
    expect(stdout).toContain('The counts add up')
    expect(stdout).toContain('docs/tasks.md')

    const again = await outputOf('demo/main.ts')
    expect(again.stderr).toContain('Continuing: ')
    expect(again.stdout).toMatch(/in all\s+\d+/)
  })
})
