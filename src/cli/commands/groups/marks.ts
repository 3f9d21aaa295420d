import { type Command, InvalidArgumentError } from 'commander'
import { type GroupView, redriveWhenFixed } from '../../../operate/index.js'
import { findGroup, groupView, operationNote, operationView } from '../../../operate/internal.js'
import type { GroupMark, StoreContract } from '../../../store/internal.js'
import { parseMoment } from '../../../time/index.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode, UsageError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { writeResult } from '../../terminal/output.js'
import { quoted } from '../../terminal/visible.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, rate, share, wholeNumber, withCommonOptions } from '../shared/options.js'
import { lifeText } from './text.js'

interface MarkOptions extends CommonOptions {
  readonly why?: string
}

interface FixOptions extends MarkOptions {
  readonly in?: string
  readonly redrive?: boolean
  readonly canary?: number
  readonly stopAbove?: number
  readonly rate?: number
}

interface IgnoreOptions extends MarkOptions {
  readonly until?: number
  readonly untilCount?: number
  readonly untilRate?: number
}

/** Adds `redrive groups ack`, `fix`, `ignore` and `reopen`. */
export function addGroupMarks(groups: Command, context: CommandContext): void {
  const ack = groups.command('ack').description('Mark a group as acknowledged: somebody knows of it')
  withMarkOptions(ack)
    .action(async (id: string, options: MarkOptions) =>
      context.end(await markGroup(context, id, { state: 'acknowledged' }, options)),
    )
    .addHelpText('after', "\nExample:\n  redrive groups ack 9c2f --why 'the provider is down'")

  const fix = groups.command('fix').description('Mark a group as fixed: it regresses if it fails again')
  withMarkOptions(fix)
    .option('--in <release>', 'Release with the fix (default: whatever runs from now on)', nonEmpty)
    .option('--redrive', 'Redrive its dead letters once all live workers of the kind run that release')
    .option('--canary <n>', 'With --redrive: move this many first (default: 10)', wholeNumber(1, 1000))
    .option('--stop-above <share>', "With --redrive: stop when more of them fail again (default: '20%')", share)
    .option('--rate <rate>', "With --redrive: maximum rate, such as '50/s'", rate)
    .action(async (id: string, options: FixOptions) => context.end(await fixGroup(context, id, options)))
    .addHelpText(
      'after',
      `
With --in, only attempts of workers that report this release or a later one
count, so that a deploy may take its time. Semantic versions are compared; any
other release is later if no live worker reports it now.

--redrive plans an operation: see redrive ops. It starts by itself when all live
workers of the kind report that release or a later one, with a canary first, and
takes the dead letters of that moment. Any live worker carries it out.

Examples:
  redrive groups fix 9c2f --in 1.8.0
  redrive groups fix 9c2f --in 1.8.0 --redrive --canary 50 --rate 100/s
  redrive groups fix 9c2f --why 'the column is there again'`,
    )

  const ignore = groups.command('ignore').description('Mark a group as ignored, for good or for now')
  withMarkOptions(ignore)
    .option('--until <date>', 'Until this date, in UTC, or ISO 8601 time', futureTime)
    .option('--until-count <n>', 'Until it has failed this many times more', wholeNumber(1, 1_000_000_000_000))
    .option('--until-rate <rate>', "Until it fails more often in an hour, such as '100/h'", perHour)
    .action(async (id: string, { until: at, untilCount, untilRate, ...options }: IgnoreOptions) => {
      const until = {
        ...(at !== undefined && { at }),
        ...(untilCount !== undefined && { count: untilCount }),
        ...(untilRate !== undefined && { perHour: untilRate }),
      }
      context.end(await markGroup(context, id, { state: 'ignored', until }, options))
    })
    .addHelpText(
      'after',
      `
It is new again once one of these is passed. Hours are those of the clock that
begin from now on.

Examples:
  redrive groups ignore 9c2f --until 2030-12-01
  redrive groups ignore 9c2f --until-count 1000
  redrive groups ignore 9c2f --until-rate 100/h --why 'a few are normal'`,
    )

  const reopen = groups.command('reopen').description('Take the mark of a group away: it is new again')
  withMarkOptions(reopen)
    .action(async (id: string, options: MarkOptions) =>
      context.end(await markGroup(context, id, { state: 'new' }, options)),
    )
    .addHelpText('after', '\nExample:\n  redrive groups reopen 9c2f')
}

function withMarkOptions(command: Command): Command {
  command
    .argument('<group>', 'Id of the group, or the beginning of it')
    .option('--why <text>', 'Reason, for the record', nonEmpty)
  return withCommonOptions(command)
}

function markGroup(
  context: CommandContext,
  text: string,
  mark: GroupMark,
  { why, ...options }: MarkOptions,
): Promise<ExitCode> {
  const { environment } = context
  return withStore(options, environment, async store => {
    const { id, life } = await findGroup(store, text)
    // An acknowledgement that is repeated without a reason would erase the one that there is.
    const isKnown = mark.state === 'acknowledged' && life.state === 'acknowledged' && why === undefined
    if (!isKnown) await store.groups.mark(id, mark, { who: environment.user, why })
    const view = await marked(store, id)
    writeResult(context.console, options.output, view)
    await sayLife(context, store, view)
    return ExitCode.done
  })
}

function fixGroup(context: CommandContext, text: string, options: FixOptions): Promise<ExitCode> {
  const { in: release, redrive, canary, stopAbove, rate: perSecond, ...mark } = options
  if (redrive !== true) {
    if ((canary ?? stopAbove ?? perSecond) !== undefined)
      throw new UsageError('--canary, --stop-above and --rate need --redrive.')
    return markGroup(context, text, { state: 'fixed', ...(release && { release }) }, mark)
  }
  if (release === undefined) {
    const now = suggest('dlq redrive', { '--group': text, '--canary': 10 })
    throw new UsageError(`--redrive needs --in, the release with the fix. To redrive the group now, run: ${now}`)
  }
  const { console, environment } = context
  return withStore(options, environment, async store => {
    const settings = { release, canary, stopAbove, perSecond, why: mark.why }
    const { id } = await findGroup(store, text)
    const operation = await redriveWhenFixed(store, id, { who: environment.user, ...settings })
    const view = await marked(store, id)
    const note = operationNote(operation, await store.workers(), await store.now())
    writeResult(console, options.output, { ...view, operation: { ...operationView(operation), note } })
    await sayLife(context, store, view)
    console.say(`${operation.id} is planned. ${note}`)
    console.say(`To see how far it is, run: ${suggest('ops show', {}, operation.id)}`)
    return ExitCode.done
  })
}

async function marked(store: StoreContract, id: string): Promise<GroupView> {
  const group = await store.groups.get(id)
  if (group === undefined) throw new CommandError(`The failure group ${quoted(id)} has just been deleted.`)
  return groupView(group)
}

async function sayLife({ console }: CommandContext, store: StoreContract, { id, life }: GroupView): Promise<void> {
  console.say(`${quoted(id)} is ${lifeText(life, await store.now())}.`)
}

/** A date without a time is its first moment in UTC. */
function futureTime(text: string): number {
  const at = parseMoment(text)
  if (at !== undefined && at > Date.now()) return at
  throw new InvalidArgumentError("It must be a time to come, such as '2030-12-01' or '2030-12-01T08:00Z'.")
}

function perHour(text: string): number {
  const [, count] = /^(\d{1,12})\/h$/.exec(text) ?? []
  if (count === undefined) throw new InvalidArgumentError("It must be a rate per hour, such as '100/h'.")
  return Number(count)
}
