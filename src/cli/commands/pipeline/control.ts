import type { Command } from 'commander'
import type { RunStatus, RunStore } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import { confirm } from '../../terminal/confirm.js'
import { writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions } from '../shared/options.js'
import { runById } from './options.js'
import { countsText } from './run-text.js'

interface ControlOptions extends CommonOptions {
  readonly why?: string
  readonly yes?: boolean
}

/** A sentence about a change that was made. */
type Done = (status: RunStatus) => string

/** The items that are cancelled in one transaction. */
const BATCH = 500

/** Adds the commands that change a run: `pause`, `continue` and `cancel`. */
export function addRunControl(pipeline: Command, context: CommandContext): void {
  const change = (name: string, description: string, isPaused: boolean, done: Done) => {
    const command = pipeline
      .command(name)
      .description(description)
      .argument('<run>', 'Id of the run')
      .option('--why <text>', 'Reason, for the record', nonEmpty)
      .action(async (id: string, options: ControlOptions) =>
        context.end(await pauseRun(context, id, options, isPaused, done)),
      )
    withCommonOptions(command)
  }
  change(
    'pause',
    'Start no more items of a run, on any machine',
    true,
    () => 'Paused. Items that are running finish their stage.',
  )
  change('continue', 'Let a paused or stopped run go on', false, status => `Continued. The run is ${status}.`)

  const cancel = pipeline
    .command('cancel')
    .description('End all items of a run that have not ended')
    .argument('<run>', 'Id of the run')
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('-y, --yes', 'Skip the confirmation prompt')
    .action(async (id: string, options: ControlOptions) => context.end(await cancelRun(context, id, options)))
  withCommonOptions(cancel)
}

function pauseRun(
  { console, environment }: CommandContext,
  id: string,
  options: ControlOptions,
  isPaused: boolean,
  done: Done,
): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    await runById(store.runs, id)
    const run = await store.runs.change(id, { isPaused }, { who: environment.user, why: options.why })
    writeResult(console, options.output, { id, status: run.status, settings: run.settings })
    console.say(done(run.status))
    return ExitCode.done
  })
}

function cancelRun(context: CommandContext, id: string, options: ControlOptions): Promise<ExitCode> {
  const { console, environment } = context
  return withStore(options, environment, async store => {
    const { counts, status } = await runById(store.runs, id)
    if (status !== 'cancelled' && !options.yes) await askFirst(context, id, counts.waiting + counts.running)
    const by = { who: environment.user, why: options.why }
    const cancelled = await withCount(
      context,
      { total: counts.waiting, verb: 'cancelled', unit: 'batch', rest: 'Run the same command again to continue.' },
      ({ signal, onProgress }) => cancelAll(store.runs, id, by, signal, onProgress),
    )
    const run = await store.runs.check(id)
    writeResult(console, options.output, { id, cancelled: cancelled.count, isStopped: cancelled.isStopped })
    const running = run.counts.running === 0 ? '' : ' Items that are running finish their stage, and then end.'
    console.say(`${cancelled.count} cancelled.${running} The run has ${countsText(run.counts)}.`)
    return cancelled.isStopped ? ExitCode.partly : ExitCode.done
  })
}

async function cancelAll(
  runs: RunStore,
  id: string,
  by: { readonly who: string; readonly why?: string | undefined },
  signal: AbortSignal,
  onProgress: (count: number) => void,
): Promise<{ readonly count: number; readonly isStopped: boolean }> {
  let count = 0
  while (!signal.aborted) {
    const { cancelled, left } = await runs.cancel(id, BATCH, by)
    count += cancelled
    onProgress(count)
    if (left === 0) return { count, isStopped: false }
  }
  return { count, isStopped: true }
}

async function askFirst({ environment }: CommandContext, id: string, items: number): Promise<void> {
  switch (await confirm(environment, `Cancel the run ${id}, with ${items} items that have not ended?`)) {
    case 'yes':
      return
    case 'no':
      throw new UsageError('Not confirmed. Nothing was cancelled.')
    case 'unasked':
      throw new UsageError(
        `This would cancel ${items} items. Without a terminal to confirm on, pass --yes. Nothing was cancelled.`,
      )
  }
}
