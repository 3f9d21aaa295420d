/** Calls in process: a few hundred, against a server that often fails. Run it with `npx tsx examples/calls-demo/main.ts`. */
import { explain } from 'redrive/policy'
import { painter, wrap } from '../demo/terminal.js'
import { startFlakyServer } from './flaky-server.js'
import { showProgress } from './progress.js'
import { outcomes, type Run, report } from './report.js'
import { Tally } from './tally.js'
import { CALLS, CONCURRENCY, POLICY, runWorkload } from './workload.js'

const TROUBLE = 'besides 200 it answers 404, 429, 500 and 503, resets connections, or never answers at all'

const interruption = new AbortController()
process.on('SIGINT', () => interruption.abort(new Error('Interrupted.')))

const server = await startFlakyServer()
console.error(wrap(`${CALLS} calls, ${CONCURRENCY} at a time, to a server on a bad day: ${TROUBLE}. Their policy:\n`))
console.error(`${wrap(explain(POLICY).words, '  ')}\n`)

const tally = new Tally()
const endProgress = showProgress(tally, CALLS, process.stderr)
const startedAt = performance.now()
const results = await runWorkload(server.url, tally.sink, interruption.signal)
const durationMs = performance.now() - startedAt
endProgress()
server.close()

const run: Run = { tally, total: CALLS, requests: server.requests, durationMs, results }
process.stdout.write(report(run, painter(process.stdout)))
process.exitCode = interruption.signal.aborted ? 130 : 0

const mistakes = audit(run)
for (const mistake of mistakes) console.error(`The figures do not add up: ${mistake}`)
if (mistakes.length > 0) process.exitCode = 1

/** Holds what the events say against what the callers got and what the server saw. */
function audit({ tally, total, requests, results }: Run): string[] {
  const sum = [...outcomes(run).values()].reduce((total, count) => total + count, 0)
  const succeeded = tally.count('succeeded')
  const ended = succeeded + tally.count('gave_up')
  const returned = results.filter(({ status }) => status === 'fulfilled').length
  const mistakes: string[] = []
  if (sum !== total) mistakes.push(`${sum} outcomes for ${total} calls.`)
  if (ended !== total && !interruption.signal.aborted) mistakes.push(`${ended} of ${total} calls have an ending.`)
  if (succeeded !== returned) mistakes.push(`${succeeded} successes on record, but ${returned} calls that returned.`)
  if (requests > tally.attempts) mistakes.push(`${requests} requests, but only ${tally.attempts} attempts on record.`)
  return mistakes
}
