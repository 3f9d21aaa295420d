import { resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { reportRun, runView, writeResults } from '../../../operate/index.js'
import { costByStage, ratesOfRun } from '../../../operate/internal.js'
import { RUN_STATUSES, type RunRecord, type RunStatus, type StoreStats, sumOfCosts } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import { writeOne, writeResult } from '../../terminal/output.js'
import { withProgress } from '../../terminal/progress.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions, withPageOptions } from '../shared/options.js'
import { type PageOptions, printList } from '../shared/print-list.js'
import { noSuchRun, runById } from './options.js'
import { runNotes, sampledPlaces } from './run-notes.js'
import { runReportText } from './run-report-text.js'
import { runText } from './run-show-text.js'
import { type ListedRun, runTable } from './run-text.js'

interface RunListOptions extends CommonOptions, PageOptions {
  readonly pipeline?: string
  readonly status?: RunStatus
}

/** Adds the commands that look at runs: `ls`, `show`, `report` and `export`. */
export function addRunLists(pipeline: Command, context: CommandContext): void {
  const ls = pipeline
    .command('ls')
    .description('List runs, newest first')
    .option('--pipeline <name>', 'Only runs of this pipeline', nonEmpty)
    .addOption(new Option('--status <status>', 'Only runs with this status').choices(RUN_STATUSES))
    .action(async (options: RunListOptions) => context.end(await listRuns(context, options)))
  withCommonOptions(withPageOptions(ls, 'runs'))

  const show = pipeline
    .command('show')
    .description('Show where the items of a run are, its source and its budget')
    .argument('<run>', 'Id of the run')
    .action(async (id: string, options: CommonOptions) => context.end(await showRun(context, id, options)))
  withCommonOptions(show)

  const report = pipeline
    .command('report')
    .description('Report on a run: retries, errors, and how each stage fared')
    .argument('<run>', 'Id of the run')
    .action(async (id: string, options: CommonOptions) => context.end(await printReport(context, id, options)))
  withCommonOptions(report).addHelpText(
    'after',
    `
Reads the history of every item. RELIABLE is the share of items that got through
the stage, of those that left it or died there.

Examples:
  redrive pipeline report enrich-1
  redrive pipeline report enrich-1 --output json | jq '.errors[0]'`,
  )

  const out = pipeline
    .command('export')
    .description('Write the results of a run to a file, in the order of its source')
    .argument('<run>', 'Id of the run')
    .requiredOption('--out <file>', 'File to write; it appears when it is complete', nonEmpty)
    .action(async (id: string, options: CommonOptions & { readonly out: string }) =>
      context.end(await exportRun(context, id, options)),
    )
  withCommonOptions(out).addHelpText(
    'after',
    `
Writes one line of JSON per succeeded item, and replaces the file if it exists.
Run it again after a reprocess: that changes lines in the middle.

Example:
  redrive pipeline export enrich-1 --out results.jsonl`,
  )
}

/** A run for people, with the size of the trial that it began with, and whether it was left alone. */
function listed(run: RunRecord, stats: StoreStats): ListedRun {
  return { ...runView(run), trial: runNotes(run).trial?.lines.length, isUnattended: isUnattended(run, stats) }
}

function listRuns({ console, environment }: CommandContext, options: RunListOptions): Promise<ExitCode> {
  const { pipeline, status } = options
  return withStore(options, environment, async store => {
    const stats = await store.stats()
    return printList(console, options, {
      read: page => store.runs.list({ pipeline, status }, page),
      toJson: runView,
      toTable: (runs, layout) =>
        runTable(
          runs.map(run => listed(run, stats)),
          console,
          { now: stats.now, layout },
        ),
      none: () => 'No runs.',
    })
  })
}

function showRun({ console, environment }: CommandContext, id: string, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const run = await runById(store.runs, id)
    const notes = runNotes(run)
    const rates = await ratesOfRun(store, run)
    const used = sumOfCosts([...(await costByStage(store, run)).values()])
    const stats = await store.stats()
    writeOne(console, options.output, { ...runView(run), used, rates, notes }, () =>
      runText({ ...listed(run, stats), used }, { notes, rates }, console, stats.now),
    )
    return ExitCode.done
  })
}

function printReport(context: CommandContext, id: string, options: CommonOptions): Promise<ExitCode> {
  const { console, environment } = context
  return withStore(options, environment, store =>
    withProgress(context, 'page', async ({ signal, report: say }) => {
      const onProgress = (items: number) => say(() => `${items} items read so far.`)
      const report = await reportRun(store, id, { signal, onProgress })
      if (report === undefined) throw noSuchRun(id)
      const now = await store.now()
      writeOne(console, options.output, report, () => runReportText(report, console, now))
      return ExitCode.done
    }),
  )
}

function exportRun(
  context: CommandContext,
  id: string,
  options: CommonOptions & { readonly out: string },
): Promise<ExitCode> {
  const { console, environment } = context
  return withStore(options, environment, store =>
    withProgress(context, 'page', async ({ signal }) => {
      const run = await runById(store.runs, id)
      const path = resolve(environment.cwd, options.out)
      const lines = await writeResults(store, id, path, { signal, sample: sampledPlaces(runNotes(run)) })
      writeResult(console, options.output, { id, file: path, lines })
      console.say(`${lines} ${lines === 1 ? 'result' : 'results'} written to '${options.out}'.`)
      if (run.endedAt === undefined) console.say(`The run is ${run.status}: there may be more.`)
      return ExitCode.done
    }),
  )
}

/**
 * Whether a run has items left and nobody works on them: its process was killed. Nobody can tell while the lease of a process
 * that is gone still runs. A run whose reader is gone is `interrupted`.
 */
function isUnattended({ status, isRead }: Pick<RunRecord, 'status' | 'isRead'>, stats: StoreStats): boolean {
  return status === 'running' && isRead && stats.workers === 0
}
