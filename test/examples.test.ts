import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '..')
const examples = readdirSync(join(ROOT, 'examples')).filter(file => file.endsWith('.ts'))

function run(file: string) {
  const args = ['--import', 'tsx', join('examples', file)]
  return spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8', timeout: 60_000 })
}

describe('each example runs, checks itself and says something', () => {
  it.each(examples)('%s', file => {
    const { status, stdout, stderr } = run(file)
    expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' })
    expect(stdout).not.toBe('')
  })
})

it('the demo of `npm start` ends by itself, accounts for every call and says where to read on', () => {
  const { status, stdout, stderr } = run('demo/main.ts')
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toMatch(/300 calls, \d+ HTTP requests/)
  expect(stdout).toMatch(/succeeded at once\s+\d+/)
  expect(stdout).toMatch(/gave up: attempts_exhausted/)
  expect(stdout).toMatch(/in all\s+300/)
  expect(stdout).toContain('README.md')
}, 60_000)
