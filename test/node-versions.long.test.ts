import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { fetchNode, type NodeRelease } from './services/node-release.js'
import { installPacked, linkPackages } from './services/packed.js'
import { ROOT, readJson } from './subpaths.js'

/*
 * The versions of Node that README.md names. The oldest one can run the package, but not the tests: Vitest asks for a later
 * one.
 */
const OLDEST = '20.12.0'
const VERSIONS = [OLDEST, '20', '22', '24']

/** Building better-sqlite3 takes a minute, on a machine that has nothing else to do. */
const LONG_MS = 900_000

/** The kernel, calls, tasks on SQLite and on PostgreSQL, the command and the package. */
const SUITE = [
  ...['src/policy', 'src/time', 'src/call', 'src/task', 'src/store/memory', 'test/package.test.ts'],
  ...['src/store/sqlite/sqlite-store.test.ts', 'src/store/postgres/postgres-store.test.ts'],
  ...['src/cli/run.test.ts', 'src/cli/commands/worker/worker.test.ts'],
]

const run = promisify(execFile)

let packed: string
beforeAll(async () => {
  packed = mkdtempSync(join(tmpdir(), 'redrive-packed-'))
  await installPacked(packed)
  return () => rmSync(packed, { recursive: true })
}, LONG_MS)

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-node-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

it('the oldest version is the one that package.json names', () => {
  expect(readJson('package.json').engines.node).toBe(`>=${OLDEST.replace(/\.0$/, '')}`)
})

describe.each(VERSIONS)('on Node %s', version => {
  let node: NodeRelease
  beforeAll(async () => {
    node = await fetchNode(version)
  }, LONG_MS)

  it('the package retries a call, and its command runs tasks from SQLite', { timeout: LONG_MS }, async () => {
    const folder = newFolder()
    cpSync(packed, folder, { recursive: true })
    linkPackages(folder, { 'better-sqlite3': node.sqlite })
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
    writeFileSync(join(folder, 'tasks.js'), TASKS)
    writeFileSync(join(folder, 'main.js'), MAIN)
    const options = { cwd: folder, env: node.env }
    const { stdout } = await run(node.program, ['main.js'], options)
    const { found, ...said } = JSON.parse(stdout)
    expect(said).toEqual({ calls: 3, waiting: 2 })
    expect(found.startsWith(`v${version.split('.')[0]}.`)).toBe(true)
    if (version === OLDEST) expect(found).toBe(`v${OLDEST}`)
    const command = 'node_modules/redrive/dist/cli/main.js'
    const worked = run(node.program, [command, 'worker', 'tasks.js', '--until-empty', '--output', 'json'], options)
    // One of the two becomes a dead letter.
    const { code, stdout: counts } = await worked.catch(error => error)
    expect(code).toBe(3)
    expect(JSON.parse(counts)).toMatchObject({ succeeded: 1, dead: 1 })
  })

  it.skipIf(version === OLDEST)(
    'the tests of the kernel, calls, tasks, both databases and the command pass',
    { timeout: LONG_MS },
    async () => {
      const folder = newFolder()
      const left = new Set(['.git', 'node_modules', 'dist'])
      for (const name of readdirSync(ROOT).filter(name => !left.has(name)))
        cpSync(join(ROOT, name), join(folder, name), { recursive: true })
      linkPackages(folder, { 'better-sqlite3': node.sqlite })
      const report = join(folder, 'report.json')
      const reporting = ['--reporter=json', `--outputFile=${report}`, '--typecheck.enabled=false']
      const vitest = ['node_modules/vitest/vitest.mjs', 'run', ...SUITE, ...reporting]
      // The same cases on every version. `npm test` looks for others.
      const env = { ...node.env, REDRIVE_TEST_SEED: '1' }
      const ended = await run(node.program, vitest, { cwd: folder, env, maxBuffer: 2 ** 26 }).catch(error => error)
      const { numPassedTests, testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report
      const failed = testResults.flatMap(file => [
        ...(file.status === 'failed' && file.message !== '' ? [file.message] : []),
        ...file.assertionResults
          .filter(({ status }) => status === 'failed')
          .map(({ fullName, failureMessages }) => `${fullName}: ${failureMessages[0]}`),
      ])
      expect(failed, String(ended.stderr)).toEqual([])
      expect(numPassedTests).toBeGreaterThan(1500)
    },
  )
})

interface Report {
  readonly numPassedTests: number
  readonly testResults: readonly {
    readonly status: string
    readonly message: string
    readonly assertionResults: readonly {
      readonly status: string
      readonly fullName: string
      readonly failureMessages: readonly string[]
    }[]
  }[]
}

const TASKS = /* js */ `
  import { FinalError } from 'redrive'
  import { defineTask } from 'redrive/task'
  export const works = defineTask('works', { handler: () => 'done' })
  export const broken = defineTask('broken', { handler: () => { throw new FinalError('never') } })
`

const MAIN = /* js */ `
  import { retry } from 'redrive'
  import { openSqlite } from 'redrive/sqlite'
  import { TaskQueue } from 'redrive/task'
  import { broken, works } from './tasks.js'
  let calls = 0
  await retry(() => { if (++calls < 3) throw Object.assign(new Error('later'), { status: 503 }) }, { backoff: 'none' })
  const store = await openSqlite('.redrive/redrive.db')
  const queue = new TaskQueue(store)
  await queue.enqueue(works, {})
  await queue.enqueue(broken, {})
  const { waiting } = await store.count({})
  await store.close()
  console.log(JSON.stringify({ found: process.version, calls, waiting }))
`
