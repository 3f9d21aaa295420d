import { type Command, InvalidArgumentError } from 'commander'
import { findGroup, groupView } from '../../operate/index.js'
import type { GroupMark } from '../../store/index.js'
import type { CommandContext } from '../command.js'
import { CommandError, ExitCode } from '../errors.js'
import { writeResult } from '../terminal/output.js'
import { quoted } from '../terminal/visible.js'
import { lifeText } from './group-text.js'
import { withStore } from './open-store.js'
import { type CommonOptions, nonEmpty, wholeNumber, withCommonOptions } from './options.js'

interface MarkOptions extends CommonOptions {
  readonly why?: string
}

interface FixOptions extends MarkOptions {
  readonly in?: string
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
    .action(async (id: string, { in: release, ...options }: FixOptions) =>
      context.end(await markGroup(context, id, { state: 'fixed', ...(release && { release }) }, options)),
    )
    .addHelpText(
      'after',
      `
With --in, only attempts of workers that report this release or a later one
count, so that a deploy may take its time. Semantic versions are compared; any
other release is later if no live worker reports it now.

Examples:
  redrive groups fix 9c2f --in 1.8.0
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
  { console, environment }: CommandContext,
  text: string,
  mark: GroupMark,
  { why, ...options }: MarkOptions,
): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const { id } = await findGroup(store, text)
    const isMarked = await store.groups.mark(id, mark, { who: environment.user, ...(why !== undefined && { why }) })
    const group = isMarked ? await store.groups.get(id) : undefined
    if (group === undefined) throw new CommandError(`The failure group ${quoted(id)} has just been deleted.`)
    const view = groupView(group)
    writeResult(console, options.output, view)
    console.say(`${quoted(id)} is ${lifeText(view.life, await store.now())}.`)
    return ExitCode.done
  })
}

/** A date without a time is its first moment in UTC. */
function futureTime(text: string): number {
  const isIso = /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(text)
  const at = isIso ? Date.parse(text) : Number.NaN
  if (at > Date.now()) return at
  throw new InvalidArgumentError("It must be a time to come, such as '2030-12-01' or '2030-12-01T08:00Z'.")
}

function perHour(text: string): number {
  const [, count] = /^(\d{1,12})\/h$/.exec(text) ?? []
  if (count === undefined) throw new InvalidArgumentError("It must be a rate per hour, such as '100/h'.")
  return Number(count)
}
