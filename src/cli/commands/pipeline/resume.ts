import { resolve } from 'node:path'
import type { Command } from 'commander'
import { releaseOf } from '../../../engine/internal.js'
import { jsonl } from '../../../pipeline/index.js'
import { sampledFirst } from '../../../pipeline/internal.js'
import { formatDuration } from '../../../policy/index.js'
import type { RunRecord, RunSettings, StoreContract } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { quoted } from '../../terminal/visible.js'
import { openStore } from '../shared/open-store.js'
import { nonEmpty } from '../shared/options.js'
import { followRun } from './follow-run.js'
import { loadPipeline } from './load-pipeline.js'
import { runById } from './options.js'
import { type RunNotes, runNotes } from './run-notes.js'
import { checkOutput } from './run-output.js'
import {
  checkStages,
  countOf,
  defined,
  inputFile,
  inputPath,
  sayOutage,
  type WorkFlags,
  withWork,
  withWorkFlags,
} from './work.js'

/** Adds `redrive pipeline resume`. */
export function addResume(pipeline: Command, context: CommandContext): void {
  const resume = pipeline
    .command('resume')
    .description('Resume a run that was stopped, interrupted or killed')
    .argument('<run>', 'Id of the run')
    .argument('<file>', 'Module that exports the result of pipeline()')
    .option('--in <file>', "Items, if the file has moved; '-' for standard input", nonEmpty)
    .option('--out <file>', 'File for the results; name the one of the run again to add to it', nonEmpty)
    .action(async (id: string, file: string, options: WorkFlags) =>
      context.end(await resumeRun(context, id, file, options)),
    )
  withWorkFlags(resume).addHelpText(
    'after',
    `
Continues to read where the run left off, and works on its items. Several
processes may do so at once on PostgreSQL: one reads, all work.
After its failure budget stopped it, the budget counts afresh. Results are
written only to the file that you name with --out.

Example:
  redrive pipeline resume enrich-1 ./enrich.js --out results.jsonl`,
  )
}

async function resumeRun(context: CommandContext, id: string, file: string, options: WorkFlags) {
  const { environment, console } = context
  const pipeline = await loadPipeline(file, environment, options.pipeline)
  checkStages(pipeline, options)
  const store = await openStore(options, environment, { mayCreate: false })
  return withWork(store, async () => {
    const run = await runById(store.runs, id)
    const notes = changedNotes(runNotes(run), options, environment.cwd)
    await checkOut(context, runNotes(run), notes, options.yes)
    const settings = settingsOf(run, options)
    if (Object.keys(settings).length > 0) await store.runs.change(id, { settings }, { who: environment.user })
    const input = run.isRead || notes.input === undefined ? undefined : inputFile(notes.input, environment.cwd)
    sayInput(context, run, { flag: options.in, input })
    const source = input === undefined ? undefined : sourceOf(input, notes)
    const { workers } = await store.stats()
    const release = releaseOf(resolve(environment.cwd, file), environment.env)
    const handle = await pipeline.resume(id, { store, onOutage: sayOutage(context), release, ...defined({ source }) })
    console.say(`Run ${id}: ${quoted(pipeline.name)} goes on after ${itemCount(run.position)}.`)
    if (workers > 0 && run.counts.running > 0) console.say(runningElsewhere(run.counts.running))
    if (source !== undefined) await sayReader(context, store, run)
    const expected = notes.trial?.total ?? (input === undefined ? undefined : countOf(input))
    return followRun(context, { store, pipeline, handle, notes, trial: undefined, expected, file, options })
  })
}

function settingsOf({ settings }: RunRecord, options: WorkFlags): Partial<RunSettings> {
  const { failureBudget, checkInterval, concurrency } = options
  const merged = concurrency && { ...settings.concurrency, ...concurrency }
  return defined({ failureBudget, checkInterval, concurrency: merged })
}

function itemCount(count: number): string {
  return `${count} ${count === 1 ? 'item' : 'items'}`
}

/** Says why nothing is read, or why `--in` is not. */
function sayInput(
  { console }: CommandContext,
  { isRead }: RunRecord,
  { flag, input }: { readonly flag: string | undefined; readonly input: string | undefined },
): void {
  if (isRead && flag !== undefined) console.say('Its source was read to its end before, so --in is not read.')
  if (!isRead && input === undefined)
    console.say('Its source is not known here, so only items taken so far are worked on. Pass --in to read on.')
}

/** Items of a process that was killed a moment ago are still its own. */
function runningElsewhere(count: number): string {
  const [items, them] = count === 1 ? ['1 item is', 'it'] : [`${count} items are`, 'them']
  const takeOver = `this one takes ${them} over when its lease expires, 30s after its last heartbeat by default`
  return `${items} running in another process. If that is gone, ${takeOver}.`
}

/** Another process may have the source, or may have been killed a moment ago. */
async function sayReader({ console }: CommandContext, store: StoreContract, { reader }: RunRecord): Promise<void> {
  const leftMs = (reader?.until ?? 0) - (await store.now())
  if (reader === undefined || leftMs <= 0) return
  const takeOver = `This one takes over if that sends no heartbeat for ${formatDuration(leftMs)}.`
  console.say(`Another process, ${reader.name}, has its source. ${takeOver}`)
}

function sourceOf(input: string, { trial }: RunNotes) {
  return trial === undefined ? jsonl(input) : sampledFirst<unknown>(input, trial)
}

/** Only the file that `--out` names is written. Whoever can write to the store could name any file in the notes of a run. */
function changedNotes(notes: RunNotes, { in: input, out }: WorkFlags, cwd: string): RunNotes {
  const output = out === undefined ? undefined : resolve(cwd, out)
  return {
    ...notes,
    ...(input !== undefined && { input: inputPath(input, cwd) }),
    output,
    isUnordered: notes.isUnordered === true && output === notes.output,
  }
}

/** Asks before a file is replaced, and says where the results of a run were to go if this command does not write them. */
async function checkOut(context: CommandContext, before: RunNotes, { output, isUnordered }: RunNotes, yes?: boolean) {
  if (output !== undefined && !isUnordered) await checkOutput(context, output, yes)
  if (output !== undefined || before.output === undefined) return
  context.console.say(`Its results were to go to ${quoted(before.output)}. To have them written here, pass --out.`)
}
