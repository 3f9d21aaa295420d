import type { Command } from 'commander'
import { type BackfillPlan, backfillSchedule, planBackfill, startBackfill } from '../../../operate/index.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { writeOne, writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { quoted } from '../../terminal/visible.js'
import { endOfOperation, refusedText, startDetached } from '../ops/text.js'
import { askFirst } from '../shared/ask-first.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, moment, nonEmpty, rate, wholeNumber, withCommonOptions } from '../shared/options.js'
import { backfillText } from './text.js'

interface BackfillFlags extends CommonOptions {
  readonly from: number
  readonly to?: number
  readonly rate?: number
  readonly limit?: number
  readonly atOnce?: number
  readonly why?: string
  readonly detach?: boolean
  readonly dryRun?: boolean
  readonly yes?: boolean
}

/** Adds `redrive schedule backfill`. */
export function addBackfill(schedule: Command, context: CommandContext): void {
  const backfill = schedule
    .command('backfill')
    .description('Run slots of the past that have not run')
    .argument('<name>', 'Name of the schedule')
    .requiredOption('--from <time>', 'From this time on, such as 2027-03-01 or 2027-03-01T08:00Z', moment)
    .option('--to <time>', 'Before this time; default: now', moment)
    .option('--rate <rate>', "Maximum rate, such as '5/s' or '60/h'", rate)
    .option('--limit <n>', 'Maximum number of runs, oldest slots first', wholeNumber(1, 1_000_000_000))
    .option('--at-once <n>', 'Maximum number of unfinished runs; default: 1 if none may overlap', wholeNumber(1, 1000))
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('--detach', 'Return at once; the live workers carry it out')
    .option('--dry-run', 'Show what would run, and change nothing')
    .option('-y, --yes', 'Do not ask')
    .action(async (name: string, options: BackfillFlags) => context.end(await runBackfill(context, name, options)))
  withCommonOptions(backfill).addHelpText(
    'after',
    `
Slots that were skipped, missed or overlapped run; those that have run do not, so
a second time it adds nothing. The runs follow the limits of their lanes.
It is an operation, on record: ops show has who, why and how many, and ops undo
cancels its runs that have not begun. Live workers carry it on if this command
dies. Where runs must not overlap, the next one starts when one has ended.

Examples:
  redrive schedule backfill nightly-report --from 2027-03-01 --dry-run
  redrive schedule backfill nightly-report --from 2027-03-01 --to 2027-03-08 --yes
  redrive schedule backfill hourly-sync --from 2027-01-01 --rate 60/h --detach`,
  )
}

function runBackfill(context: CommandContext, name: string, options: BackfillFlags): Promise<ExitCode> {
  const { console, environment } = context
  return withStore(options, environment, async store => {
    const range = { from: options.from, to: options.to ?? (await store.now()) }
    const plan = await planBackfill(store, name, range)
    const count = Math.min(plan.slots.length, options.limit ?? Infinity)
    if (options.dryRun || count === 0) {
      writeOne(console, options.output, plan, () => planText(plan))
      return ExitCode.done
    }
    const runs = `${count === 1 ? '1 run' : `${count} runs`} of ${quoted(name)}`
    const effect = `This would start ${runs}.`
    if (!options.yes)
      await askFirst(environment, { question: `Start ${runs}?`, effect, nothing: 'Nothing was started.' })
    const { rate: perSecond, limit, atOnce, why } = options
    const settings = { who: environment.user, why, perSecond, limit, atOnce }
    if (options.detach) {
      const start = async () => {
        const started = await startBackfill(store, name, range, settings)
        if (started === undefined) throw new CommandError('All slots of the range have run by now.')
        return started
      }
      return startDetached(context, store, options.output, start)
    }
    const rest = `To see whether its operation goes on, run: ${suggest('ops ls')}`
    const { operation } = await withCount(context, { total: count, verb: 'started', unit: 'batch', rest }, progress =>
      backfillSchedule(store, name, range, { ...settings, ...progress }),
    )
    if (operation !== undefined) return endOfOperation(context, store, options.output, operation)
    writeResult(console, options.output, { started: 0, isStopped: false, operation: null })
    console.say('0 started.')
    return ExitCode.done
  })
}

function planText(plan: BackfillPlan): string {
  return [backfillText(plan), ...plan.refused.map(({ reason, count }) => refusedText(reason, count))].join('\n')
}
