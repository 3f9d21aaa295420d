import type { Command } from 'commander'
import { toRetention } from '../../../engine/internal.js'
import { pruneStore } from '../../../operate/index.js'
import type { Prunable } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import { grouped } from '../../terminal/chart.js'
import { writeResult } from '../../terminal/output.js'
import { withProgress } from '../../terminal/progress.js'
import { askFirst } from '../shared/ask-first.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, withCommonOptions } from '../shared/options.js'
import { type RetentionFlags, retentionOf, retentionText, withRetentionOptions } from '../shared/retention.js'

interface PruneCommandOptions extends CommonOptions, RetentionFlags {
  readonly dryRun?: boolean
  readonly yes?: boolean
}

/** Adds `redrive prune`. */
export function addPrune(program: Command, context: CommandContext): void {
  const prune = withRetentionOptions(
    program.command('prune').description('Delete ended work that is older than you want to keep it'),
  )
    .option('--dry-run', 'Count what would be deleted, and delete nothing')
    .option('-y, --yes', 'Skip the confirmation prompt')
    .action(async (options: PruneCommandOptions) => context.end(await pruneAll(context, options)))
  withCommonOptions(prune).addHelpText(
    'after',
    `
Ended work is tasks that succeeded, were skipped or were cancelled, with their
history, idempotency keys whose work is done, and audit records. Items go with
their run. The id of a deleted task is free again. A worker that is given the
same flags does this by itself. Ctrl-C stops it after the current batch.

--keep-count counts the tasks of all kinds together, without items of runs, and
deletes the oldest.

Examples:
  redrive prune --keep 30d --dry-run
  redrive prune --keep 30d --keep-dead 90d --yes
  redrive prune --keep-succeeded 1d --keep-count succeeded=100000 --yes`,
  )
}

function pruneAll(context: CommandContext, options: PruneCommandOptions): Promise<ExitCode> {
  const { console, environment } = context
  const { output } = options
  const kept = retentionOf(options)
  if (kept === undefined)
    throw new UsageError('Nothing to delete was named. Pass --keep, --keep-dead or both, such as --keep 30d.')
  const retention = toRetention(kept)
  return withStore(options, environment, async store => {
    if (options.dryRun) {
      const prunable = await store.prunable(retention)
      writeResult(console, output, prunable)
      console.say(`${prunableText(prunable)} would be deleted. This was a dry run: 0 deleted.`)
      return ExitCode.done
    }
    if (!options.yes) {
      const what = retentionText(options)
      await askFirst(environment, {
        question: `Delete ${what} for good?`,
        effect: `This would delete ${what} for good.`,
        nothing: '0 deleted.',
      })
    }
    return withProgress(context, 'batch', async ({ signal, report }) => {
      const onProgress = (deleted: number) => report(() => `${grouped(deleted)} deleted so far.`)
      const result = await pruneStore(store, retention, { signal, onProgress })
      writeResult(console, output, result)
      console.say(`${grouped(result.deleted)} deleted.`)
      if (!result.isStopped) return ExitCode.done
      console.say('Stopped. Run the same command again to continue.')
      return ExitCode.partly
    })
  })
}

const NAMES: readonly (readonly [keyof Prunable, one: string, many: string])[] = [
  ['tasks', 'task', 'tasks'],
  ['deadLetters', 'dead letter', 'dead letters'],
  ['runs', 'run', 'runs'],
  ['items', 'item of runs', 'items of runs'],
  ['keys', 'idempotency key', 'idempotency keys'],
  ['records', 'record', 'records'],
]

/** `12 tasks, 1 dead letter`, leaving out what there is none of. */
function prunableText(prunable: Prunable): string {
  const parts = NAMES.filter(([name]) => prunable[name] > 0).map(([name, one, many]) => {
    const count = prunable[name]
    return `${grouped(count)} ${count === 1 ? one : many}`
  })
  return parts.join(', ') || 'Nothing'
}
