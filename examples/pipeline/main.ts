/**
 * A pipeline over a few hundred samples, against a server that plays a throttling LLM. Run it with
 * `npx tsx examples/pipeline/main.ts`.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type RunReport, reportRun, reprocess, writeResults } from 'redrive/operate'
import { jsonl } from 'redrive/pipeline'
import { openSqlite } from 'redrive/sqlite'
import { enrich, type Sample } from './enrich.js'
import { startLlmServer } from './llm-server.js'

const SAMPLES = 400
const POISONED = 4

const folder = await mkdtemp(join(tmpdir(), 'redrive-'))
const input = join(folder, 'samples.jsonl')
const samples = Array.from({ length: SAMPLES }, (_, id) => JSON.stringify({ id, text: textOf(id) }))
await writeFile(input, `${samples.join('\n')}\n`)

const server = await startLlmServer()
const store = await openSqlite(join(folder, 'redrive.db'))

// Each item goes through the stages by itself. What is done is on disk, so a run that is killed can be resumed.
const first = enrich(server.url, 'v1')
const run = await first.start(jsonl<Sample>(input), { store, id: 'enrich-1' })
for await (const { ended, total, retries, deferrals, counts } of run.progress()) {
  console.error(`${ended} of ${total} ended, ${retries} retries, ${deferrals} deferred, ${counts.dead} dead`)
}
const result = (await run.result).orThrow()
print(await reportRun(store, run.id))
assert.deepEqual([result.status, result.counts.dead, result.total], ['completed', POISONED, SAMPLES])

// Version 2 removes what the model cannot take. Only the failed stage is run again, with the data that it had.
const fixed = enrich(server.url, 'v2', text => text.replaceAll('\u0000', ''))
const { moved } = await reprocess(
  store,
  { run: run.id, stage: 'llm_call' },
  { who: 'ada', why: 'NULs are removed now' },
)
console.log(`\n${moved} dead items go on at llm_call, with version ${fixed.version}.`)
const again = await (await fixed.resume(run.id, { store })).result
console.log(
  `The run is ${again.status}: ${again.counts.succeeded} succeeded, ${again.counts.skipped} skipped, ${again.counts.dead} dead.`,
)
assert.deepEqual([again.status, again.counts.dead], ['completed', 0])

const lines = await writeResults(store, run.id, join(folder, 'results.jsonl'))
console.log(`${lines} results in the order of the samples.`)
assert.equal(lines, again.counts.succeeded)

console.log(`The server answered ${[...server.answers].map(([status, count]) => `${count} × ${status}`).join(', ')}.`)
server.close()
await store.close()
await rm(folder, { recursive: true })

function textOf(id: number): string {
  return id % (SAMPLES / POISONED) === 50 ? `sample ${id}\u0000` : `sample ${id}`
}

function print(report: RunReport | undefined): void {
  assert(report !== undefined)
  const { total, counts, durationMs, stageReports, retries, attempts, errors } = report
  console.log(`${total} samples: ${counts.succeeded} succeeded, ${counts.skipped} skipped, ${counts.dead} dead.`)
  console.log(`It took ${(durationMs / 1000).toFixed(1)} s.`)
  for (const { stage, passed, dead, deferrals, durations } of stageReports) {
    console.log(`  ${stage.padEnd(8)}  ${passed} passed, ${dead} dead, ${deferrals} deferred, p99 ${durations.p99} ms`)
  }
  for (const { retries: count, items } of retries) console.log(`  ${items} items needed ${count} retries`)
  for (const { attempt, made, succeeded } of attempts)
    console.log(`  attempt ${attempt}: ${succeeded} of ${made} succeeded`)
  for (const { code, stage, failures, dead } of errors) {
    console.log(`  ${code} in ${stage}: ${failures} failed attempts, ${dead} dead`)
  }
}
