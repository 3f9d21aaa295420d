// Measures redrive against a hand-written loop and its peers. Tables on stdout, progress on stderr.
//
//   node bench/run.mjs [SUITE ...] [--json FILE] [--strict] [--short]
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { installPeers } from './install-peers.mjs'
import { table, verdict } from './report.mjs'

const SUITES = [
  'success',
  'fails-twice',
  'heap',
  'stack',
  'arming',
  'size',
  'fingerprint',
  'groups',
  'tasks',
  'backlog',
  'lists',
  'operations',
  'budgets',
  'schedules',
  'steps',
  'together',
  'unique',
  'worker-heap',
  'latency',
  'postgres',
  'postgres-backlog',
  'postgres-latency',
  'events',
  'documents',
  'pipelines',
  'pipelines-million',
  'pipelines-throttled',
  'pipelines-postgres',
]

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'string' },
    strict: { type: 'boolean', default: false },
    // Fewer items and rounds, where a suite takes minutes: to see that it runs, not to compare figures.
    short: { type: 'boolean', default: false },
  },
})
const suites = positionals.length > 0 ? positionals : SUITES
for (const suite of suites) {
  if (!SUITES.includes(suite)) fail(`There is no suite '${suite}'. The suites are: ${SUITES.join(', ')}.`, 2)
}

installPeers()
const figures = suites.flatMap(suite => {
  console.error(`${suite} …`)
  const results = runSuite(suite)
  for (const figure of results) console.log(table(figure))
  return results
})

if (flags.json !== undefined) {
  writeFileSync(flags.json, `${JSON.stringify({ node: process.version, figures }, null, 2)}\n`)
}
const missed = figures.filter(figure => verdict(figure) === 'MISSED')
if (missed.length > 0) {
  console.log(`Missed: ${missed.map(({ title }) => title).join('; ')}`)
  if (flags.strict) process.exitCode = 1
}

/** Each suite runs in a process of its own, so that none inherits another's heap or optimised code. */
function runSuite(suite) {
  const file = fileURLToPath(new URL(`suites/${suite}.mjs`, import.meta.url))
  const { status, stdout } = spawnSync(process.execPath, ['--expose-gc', file], {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
    env: { ...process.env, REDRIVE_BENCH_SHORT: flags.short ? '1' : '' },
  })
  if (status !== 0) fail(`The suite '${suite}' failed: see above.`, 1)
  return JSON.parse(stdout)
}

function fail(message, exitCode) {
  console.error(message)
  process.exit(exitCode)
}
