import { type Command, Option } from 'commander'
import { planSchedule, setSchedule } from '../../../operate/index.js'
import type { Schedule, ScheduleOptions } from '../../../schedule/index.js'
import { CATCH_UPS, type CatchUp, OVERLAPS, type Overlap, type ScheduleRecord } from '../../../store/internal.js'
import { type DeclaredTask, declareTask, PayloadError } from '../../../task/index.js'
import { payloadCheck } from '../../../task/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import { writeOne, writeResult } from '../../terminal/output.js'
import { quoted } from '../../terminal/visible.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, duration, moment, nonEmpty, number, withCommonOptions } from '../shared/options.js'
import { jsonText } from '../task/edit.js'
import { loadTasks, withTasks } from '../worker/load-work.js'
import { loadWords } from './in-words.js'
import { planText, setText } from './text.js'

interface SetFlags extends CommonOptions {
  readonly cron?: string
  readonly every?: number
  readonly tz?: string
  readonly kind?: string
  readonly category?: string
  readonly key?: string
  readonly priority?: number
  readonly payload?: string
  readonly catchUp?: CatchUp
  readonly catchUpWithin?: number
  readonly overlap?: Overlap
  readonly spread?: number
  readonly start?: number
  readonly end?: number
  readonly tasks?: string
  readonly why?: string
  readonly dryRun?: boolean
}

/** Adds `redrive schedule set`. */
export function addSet(parent: Command, context: CommandContext): void {
  const set = parent
    .command('set')
    .description('Create a schedule, or change one')
    .argument('<name>', 'Name of the schedule')
    .addOption(new Option('--cron <expression>', "When it runs, such as '30 2 * * *'").argParser(nonEmpty))
    .addOption(
      new Option('--every <duration>', "Or an interval, such as '15m'").argParser(duration(1000)).conflicts('cron'),
    )
    .option('--tz <zone>', 'Time zone of the expression, such as Europe/Berlin; default: UTC', nonEmpty)
    .option('--kind <kind>', 'Kind of the task that it enqueues', nonEmpty)
    .option('--payload <json>', 'Payload of the task; default: null', jsonText)
    .option('--category <category>', 'Category of the task', nonEmpty)
    .option('--key <key>', 'Key of the lane of the task', nonEmpty)
    .option('--priority <n>', 'Priority of the task: higher goes first', number)
    .addOption(new Option('--catch-up <rule>', 'Missed slots that run late; default: last').choices(CATCH_UPS))
    .option('--catch-up-within <duration>', 'Slots that are later than this are missed; default: 1d', duration(0))
    .addOption(new Option('--overlap <rule>', 'While an earlier run is unfinished; default: allow').choices(OVERLAPS))
    .option('--spread <duration>', 'Start late by a part of this that depends on the name', duration(0))
    .option('--start <time>', 'No slot is before this time, such as 2027-03-01T08:00Z', moment)
    .option('--end <time>', 'Every slot is before this time', moment)
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('--dry-run', 'Show the next runs, and change nothing')
    .action(async (name: string, flags: SetFlags) => context.end(await setOne(context, name, flags)))
  withCommonOptions(withTasks(set)).addHelpText(
    'after',
    `
A new schedule needs --kind, and --cron or --every. Of one that is there, only
what the flags say is changed. Other times, another time zone or another task
begin a new generation: runs that have not begun are skipped. The change holds
until code declares something else than before. A pause stays.
With --tasks, or 'tasks' in the configuration of the project, a payload that
does not fit the schema of its task is refused.

Examples:
  redrive schedule set cleanup --every 15m --kind cleanup --overlap skip
  redrive schedule set nightly-report --cron '30 3 * * *' --dry-run
  redrive schedule set nightly-report --tz Europe/Berlin --why 'summer time'`,
  )
}

async function setOne({ console, environment }: CommandContext, name: string, flags: SetFlags): Promise<ExitCode> {
  const tasks = (await loadTasks(flags.tasks, environment)) ?? []
  return withStore(flags, environment, async store => {
    const made = await scheduleOf(name, flags, await store.schedules.get(name), tasks)
    const plan = await planSchedule(store, made)
    const [now, inWords] = await Promise.all([store.now(), loadWords()])
    if (flags.dryRun) {
      writeOne(console, flags.output, plan, () => planText(plan, made.spec, console, now, inWords))
      return ExitCode.done
    }
    const view = await setSchedule(store, made, { who: environment.user, why: flags.why })
    writeResult(console, flags.output, view)
    console.say(setText(plan, now))
    return ExitCode.done
  })
}

/** The schedule as the flags say; where they say nothing, as it was. */
async function scheduleOf(
  name: string,
  flags: SetFlags,
  before: ScheduleRecord | undefined,
  tasks: readonly DeclaredTask[],
): Promise<Pick<Schedule, 'spec'>> {
  const kind = flags.kind ?? before?.task.kind
  if (kind === undefined)
    throw new UsageError(`There is no schedule ${quoted(name)} yet. To create it, pass the kind of its task: --kind.`)
  const task = tasks.find(each => each.kind === kind) ?? declareTask(kind)
  const payload = flags.payload ?? before?.task.payload ?? 'null'
  const problem = await payloadCheck(task)?.(JSON.parse(payload))
  if (problem !== undefined) throw new PayloadError(kind, problem)
  // The parser of cron expressions is loaded for this alone.
  const { schedule } = await import('../../../schedule/index.js')
  const { spec } = schedule(name, { ...optionsOf(flags, before), task, payload: JSON.parse(payload) })
  // Its text, since JavaScript would round some numbers.
  return { spec: { ...spec, task: { ...spec.task, payload } } }
}

type Options = Omit<ScheduleOptions, 'task'>

function optionsOf(flags: SetFlags, before: ScheduleRecord | undefined): Options {
  const { cron, every, tz, category, key, priority, catchUp, catchUpWithin, overlap, spread, start, end } = flags
  const rules = { category, key, priority, catchUp, catchUpWithin, overlap, spread }
  const times = { timeZone: tz, startAt: dateOf(start), endAt: dateOf(end) }
  const { cron: oldCron, every: oldEvery, ...known } = before === undefined ? {} : optionsOfRecord(before, catchUp)
  const due = cron === undefined && every === undefined ? { cron: oldCron, every: oldEvery } : { cron, every }
  const given = Object.entries({ ...rules, ...times }).filter(([, value]) => value !== undefined)
  return { ...known, ...due, ...Object.fromEntries(given) }
}

/** The options of a schedule that is there. One that catches nothing up has no time within which it does. */
function optionsOfRecord(record: ScheduleRecord, catchUp: CatchUp = record.catchUp): Options {
  const { times, timeZone, task, catchUpWithinMs, overlap, spreadMs, startAt, endAt } = record
  const { category, key, priority } = task
  return {
    ...('cron' in times ? { cron: times.cron } : { every: times.everyMs }),
    ...(catchUp !== 'skip' && { catchUpWithin: catchUpWithinMs }),
    timeZone,
    category,
    key,
    priority,
    catchUp,
    overlap,
    spread: spreadMs,
    startAt: dateOf(startAt),
    endAt: dateOf(endAt),
  }
}

function dateOf(time: number | undefined): Date | undefined {
  return time === undefined ? undefined : new Date(time)
}
