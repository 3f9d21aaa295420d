import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { freshDatabase } from './services/fresh-database.js'
import { ownSpace } from './services/own-space.js'
import { BROKER_MS, sharedBroker } from './services/shared-broker.js'

const ROOT = resolve(import.meta.dirname, '..')
const examples = readdirSync(join(ROOT, 'examples')).filter(file => file.endsWith('.ts'))
const folder = mkdtempSync(join(tmpdir(), 'redrive-examples-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Runs an example, and returns its output once it has ended well. */
async function outputOf(file: string, more: NodeJS.ProcessEnv = {}) {
  const args = ['--import', join(ROOT, 'node_modules/tsx/dist/esm/index.mjs'), join(ROOT, 'examples', file)]
  const env = { ...process.env, ...more, TSX_TSCONFIG_PATH: join(ROOT, 'tsconfig.json') }
  // An example keeps its files in the folder that it is run in.
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

  it('the web API answers while the service behind it fails, and shows its metrics', async () => {
    const { stdout } = await outputOf('web-api/main.ts')
    expect(stdout).toContain('Flaky: 4 requests, 4 × 200')
    expect(stdout).toContain('Slow: 504 when the deadline has passed, although the service stalled in the body')
    expect(stdout).toContain('Healthy again: the breaker is closed.')
  })

  it('the order system charges each card once and mails each receipt, on SQLite and on PostgreSQL', async () => {
    const { stdout } = await outputOf('orders/main.ts', { DATABASE_URL: await freshDatabase() })
    expect(stdout).toContain('SQLite: 50 orders paid and mailed')
    expect(stdout).toContain('PostgreSQL: 50 orders paid and mailed')
  })

  it('the consumer of RabbitMQ that is killed half-way reserves for each order once', {
    timeout: BROKER_MS,
  }, async () => {
    const AMQP_URL = await ownSpace('rabbitmq', await sharedBroker('rabbitmq'))
    const { stdout } = await outputOf('rabbitmq-consumer/main.ts', { AMQP_URL })
    expect(stdout).toContain('1000 reservations, none of them twice')
    expect(stdout).toContain('Redriven: order 9001 has its lamps.')
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
