import { resolve } from 'node:path'
import type { Command } from 'commander'
import { releaseOf } from '../../../engine/internal.js'
import { jsonl } from '../../../pipeline/index.js'
import type { CommandContext } from '../../command.js'
import { UsageError } from '../../errors.js'
import { quoted } from '../../terminal/visible.js'
import { openStore } from '../shared/open-store.js'
import { nonEmpty, wholeNumber } from '../shared/options.js'
import { followRun } from './follow-run.js'
import { loadPipeline } from './load-pipeline.js'
import type { RunNotes } from './run-notes.js'
import { checkOutput } from './run-output.js'
import { drawTrial } from './trial.js'
import { checkStages, countOf, defined, inputFile, sayOutage, type WorkFlags, withWork, withWorkFlags } from './work.js'

interface RunFlags extends WorkFlags {
  readonly in: string
  readonly unordered?: boolean
  readonly trial?: number
  readonly id?: string
}

/** Adds `redrive pipeline run`. */
export function addRun(pipeline: Command, context: CommandContext): void {
  const run = pipeline
    .command('run')
    .description('Run the lines of a file through the stages of a pipeline')
    .argument('<file>', 'Module that exports the result of pipeline()')
    .requiredOption('--in <file>', "Items: one JSON value per line; '-' for standard input", nonEmpty)
    .option('--out <file>', 'File for the results: one JSON value per line, in the order of the items', nonEmpty)
    .option('--unordered', 'Write results as they come')
    .option('--trial <n>', 'Run this many random lines first, say what to expect, and ask', wholeNumber(1, 2000))
    .option('--id <run>', 'Id of the run (default: generated)', nonEmpty)
    .action(async (file: string, options: RunFlags) => context.end(await startRun(context, file, options)))
  withWorkFlags(run).addHelpText(
    'after',
    `
SIGINT and SIGTERM stop it: running items get a grace period to end. Resume it
with redrive pipeline resume; a killed run too. A second signal ends it at once.
Exits with 0 if the run completed, 3 if it succeeded in part or was stopped by a
signal, and 1 if it failed, was cancelled or interrupted, or exceeded its
failure budget.

Examples:
  redrive pipeline run ./enrich.js --in samples.jsonl --out results.jsonl
  redrive pipeline run ./enrich.js --in samples.jsonl --trial 200
  redrive pipeline run ./enrich.js --in samples.jsonl --failure-budget 5% \\
    --concurrency llm_call=20 --out results.jsonl --unordered`,
  )
}

async function startRun(context: CommandContext, file: string, options: RunFlags) {
  const { environment, console } = context
  const pipeline = await loadPipeline(file, environment, options.pipeline)
  checkStages(pipeline, options)
  const input = inputFile(options.in, environment.cwd)
  const output = options.out === undefined ? undefined : resolve(environment.cwd, options.out)
  if (options.unordered && output === undefined) throw new UsageError('--unordered needs --out.')
  if (output !== undefined) await checkOutput(context, output, options.yes)
  const store = await openStore(options, environment, { mayCreate: true })
  return withWork(store, async () => {
    const trial = options.trial === undefined ? undefined : await drawTrial(input, options.trial)
    if (options.trial !== undefined && trial === undefined) {
      console.say(`'${options.in}' has no more than ${options.trial} items, so all of them are run without a trial.`)
    }
    const notes: RunNotes = { input, output, isUnordered: options.unordered, trial: trial?.sample }
    const { id, failureBudget, checkInterval, concurrency } = options
    const handle = await pipeline.start(trial?.source ?? jsonl(input), {
      store,
      onOutage: sayOutage(context),
      release: releaseOf(resolve(environment.cwd, file), environment.env),
      about: notes,
      hasOutput: options.unordered === true,
      ...defined({ id, failureBudget, checkInterval, concurrency }),
    })
    console.say(
      `Run ${handle.id}: ${quoted(pipeline.name)} reads ${options.in === '-' ? 'standard input' : `'${options.in}'`}.`,
    )
    const expected = trial?.sample?.total ?? countOf(input)
    return followRun(context, { store, pipeline, handle, notes, trial, expected, file, options })
  })
}
