import type { Command } from 'commander'
import { groupLetters, type LetterGroup } from '../../operate/index.js'
import type { CommandContext } from '../command.js'
import { ExitCode } from '../errors.js'
import { grouped } from '../terminal/chart.js'
import type { Console } from '../terminal/console.js'
import { writeList } from '../terminal/output.js'
import { NAME_WIDTH, table } from '../terminal/table.js'
import { relative } from '../terminal/times.js'
import { withStore } from './open-store.js'
import { type CommonOptions, type FilterOptions, withCommonOptions, withFilterOptions } from './options.js'

type GroupOptions = CommonOptions & FilterOptions

/** Adds `redrive dlq groups`. */
export function addGroups(dlq: Command, context: CommandContext): void {
  const groups = dlq
    .command('groups')
    .description('Group dead letters that died of the same failure')
    .action(async (options: GroupOptions) => context.end(await showGroups(context, options)))
  withCommonOptions(withFilterOptions(groups)).addHelpText(
    'after',
    `
Messages that differ only in ids, numbers and other values are one group: 'order * not found'.

Examples:
  redrive dlq groups
  redrive dlq groups --kind charge --output json`,
  )
}

function showGroups({ console, environment }: CommandContext, options: GroupOptions): Promise<ExitCode> {
  const { kind, category, key, code: errorCode, output } = options
  return withStore(options, environment, async store => {
    const groups = await groupLetters(store, { kind, category, key, errorCode })
    const now = await store.now()
    writeList(console, output, groups, () => groupTable(groups, console, now))
    if (groups.length === 0) console.say('No dead letters.')
    return ExitCode.done
  })
}

function groupTable(groups: readonly LetterGroup[], console: Console, now: number): string {
  const columns = [
    { title: 'COUNT' },
    { title: 'KIND', minWidth: NAME_WIDTH },
    { title: 'CODE', minWidth: NAME_WIDTH },
    { title: 'FIRST' },
    { title: 'LAST' },
    { title: 'FAILURE', minWidth: 16 },
  ]
  const rows = groups.map(({ count, kind, errorCode, errorName, pattern, firstDiedAt, lastDiedAt }) => ({
    cells: [
      grouped(count),
      kind,
      errorCode ?? '-',
      relative(firstDiedAt, now),
      relative(lastDiedAt, now),
      [errorName, pattern].filter(text => text !== '').join(': '),
    ],
    paints: [console.paint.red],
  }))
  return table(columns, rows, console)
}
