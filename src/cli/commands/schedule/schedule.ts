import type { Command } from 'commander'
import {
  findSchedule,
  listSchedules,
  pauseSchedule,
  removeSchedule,
  resumeSchedule,
  runSchedule,
} from '../../../operate/index.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { writeOne, writeResult } from '../../terminal/output.js'
import { quoted } from '../../terminal/visible.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, wholeNumber, withCommonOptions, withPageOptions } from '../shared/options.js'
import { type PageOptions, printList } from '../shared/print-list.js'
import { addBackfill } from './backfill.js'
import { loadWords } from './in-words.js'
import { addSet } from './set.js'
import { proofText, scheduleTable, scheduleText } from './text.js'

interface ActOptions extends CommonOptions {
  readonly why?: string
}

/** Adds `redrive schedule`. */
export function addSchedule(program: Command, context: CommandContext): void {
  const schedule = program.command('schedule').description('List, show, set, pause and backfill schedules')
  addReads(schedule, context)
  addSet(schedule, context)
  addActs(schedule, context)
  addBackfill(schedule, context)
}

function addReads(schedule: Command, context: CommandContext): void {
  const { console, environment } = context
  const ls = schedule
    .command('ls')
    .description('List schedules with their next slots, in the time of their zone')
    .action(async (options: CommonOptions & PageOptions) =>
      context.end(
        await withStore(options, environment, async store => {
          const [now, inWords] = await Promise.all([store.now(), loadWords()])
          return printList(console, options, {
            read: page => listSchedules(store, page),
            toJson: view => view,
            toTable: (views, layout) => scheduleTable(views, console, now, layout, inWords),
            none: () => 'No schedules. Code declares them: new Worker(store, { tasks, schedules }).',
          })
        }),
      ),
    )
  withCommonOptions(withPageOptions(ls, 'schedules')).addHelpText('after', '\nExample:\n  redrive schedule ls')

  const show = schedule
    .command('show')
    .description('Show a schedule, its next slots, and how its last ones ended')
    .argument('<name>', 'Name of the schedule')
    .option('--last <n>', 'How many of its last slots', wholeNumber(1, 1000), 20)
    .action(async (name: string, options: CommonOptions & { readonly last: number }) =>
      context.end(
        await withStore(options, environment, async store => {
          const view = await findSchedule(store, name, { last: options.last })
          const [now, inWords] = await Promise.all([store.now(), loadWords()])
          writeOne(console, options.output, view, () => scheduleText(view, console, now, inWords))
          return ExitCode.done
        }),
      ),
    )
  withCommonOptions(show).addHelpText(
    'after',
    `
A slot ends as ran (|), skipped (.), missed (!) or overlapped (x).

Example:
  redrive schedule show nightly-report`,
  )

  const prove = schedule
    .command('prove')
    .description('Show each day of a year on which the clocks change, and what runs on it')
    .argument('<name>', 'Name of the schedule')
    .option('--year <year>', 'The year; default: this one', wholeNumber(1970, 9999))
    .action(async (name: string, options: CommonOptions & { readonly year?: number }) =>
      context.end(
        await withStore(options, environment, async store => {
          const { times, timeZone } = await findSchedule(store, name, { last: 1 })
          const year = options.year ?? new Date(await store.now()).getUTCFullYear()
          const { changeDays, timetable } = await import('../../../calendar/internal.js')
          const days = changeDays(timetable({ times, timeZone }), timeZone, year)
          writeOne(console, options.output, { name, timeZone, year, days }, () => proofText(days, timeZone, year))
          return ExitCode.done
        }),
      ),
    )
  withCommonOptions(prove).addHelpText('after', '\nExample:\n  redrive schedule prove nightly-report --year 2027')
}

function addActs(schedule: Command, context: CommandContext): void {
  const { console } = context
  const act = (
    name: string,
    description: string,
    help: string,
    action: (store: Parameters<Parameters<typeof withStore>[2]>[0], schedule: string, why?: string) => Promise<string>,
  ) => {
    const command = schedule
      .command(name)
      .description(description)
      .argument('<name>', 'Name of the schedule')
      .option('--why <text>', 'Reason, for the record', nonEmpty)
      .action(async (of: string, options: ActOptions) =>
        context.end(
          await withStore(options, context.environment, async store => {
            const text = await action(store, of, options.why)
            writeResult(console, options.output, await findSchedule(store, of).catch(() => ({ name: of })))
            console.say(text)
            return ExitCode.done
          }),
        ),
      )
    withCommonOptions(command).addHelpText('after', `\n${help}\n\nExample:\n  redrive schedule ${name} nightly-report`)
  }
  const by = (why: string | undefined) => ({ who: context.environment.user, why })
  const skips = 'Slots in a pause are skipped, and not caught up afterwards. Runs that were\nenqueued before go on.'
  act('pause', 'Skip the slots of a schedule until it is resumed', skips, async (store, name, why) => {
    await pauseSchedule(store, name, by(why))
    return `The schedule ${quoted(name)} is paused: its slots are skipped until it is resumed.`
  })
  act(
    'resume',
    'End the pause of a schedule',
    'To run slots of the pause, backfill them.',
    async (store, name, why) => {
      await resumeSchedule(store, name, by(why))
      return `The schedule ${quoted(name)} is on.`
    },
  )
  const stays =
    'Its runs and the record of its slots stay. A worker whose code declares it makes\nit again when it starts.'
  act('rm', 'Remove a schedule', stays, async (store, name, why) => {
    await removeSchedule(store, name, by(why))
    return `The schedule ${quoted(name)} is removed.`
  })
  const beside =
    'The run is beside the slots, which go on as they are. It is refused while an\nearlier run has not finished, unless the schedule lets runs overlap.'
  act('run', 'Start a run of a schedule now', beside, async (store, name, why) => {
    const started = await runSchedule(store, name, by(why))
    if ('unfinished' in started)
      throw new UsageError(`The run ${started.unfinished} has not finished. Nothing was started.`)
    return `Started ${started.id}. To see it, run: ${suggest('task show', {}, started.id)}`
  })
}
