import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '..')
const examples = readdirSync(join(ROOT, 'examples')).filter(file => file.endsWith('.ts'))
// What an example keeps, it keeps in the folder it is run in.
const folder = mkdtempSync(join(tmpdir(), 'redrive-examples-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function run(file: string) {
  const args = ['--import', join(ROOT, 'node_modules/tsx/dist/esm/index.mjs'), join(ROOT, 'examples', file)]
  const env = { ...process.env, TSX_TSCONFIG_PATH: join(ROOT, 'tsconfig.json') }
  return spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8', timeout: 120_000 })
}

/** What it printed, once it has ended well. */
function outputOf(file: string) {
  const { status, stdout, stderr } = run(file)
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' })
  return { stdout, stderr }
}

describe('each example runs, checks itself and says something', () => {
  it.each(examples)('%s', { timeout: 120_000 }, file => {
    expect(outputOf(file).stdout).not.toBe('')
  })
})

it('the demo of calls ends by itself and accounts for every call', { timeout: 120_000 }, () => {
  const { stdout } = outputOf('calls-demo/main.ts')
  expect(stdout).toMatch(/300 calls, \d+ HTTP requests/)
  expect(stdout).toMatch(/succeeded at once\s+\d+/)
  expect(stdout).toMatch(/in all\s+300/)
})

it('the demo of `npm start` ends by itself, accounts for every task, and continues the next time', {
  timeout: 240_000,
}, () => {
  const { stdout } = outputOf('demo/main.ts')
  expect(stdout).toMatch(/in all\s+3000/)
  expect(stdout).toMatch(/The ledger: \d+ attempts/)
  expect(stdout).toMatch(/attempts_exhausted/)
  expect(stdout).toContain('The counts add up')
  expect(stdout).toContain('docs/tasks.md')

  const again = outputOf('demo/main.ts')
  expect(again.stderr).toContain('Continuing: ')
  expect(again.stdout).toMatch(/in all\s+\d+/)
})
