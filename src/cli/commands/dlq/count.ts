import { type Command, InvalidArgumentError } from 'commander'
import { countTasks, type TaskCountView } from '../../../operate/index.js'
import type { CountField } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import { grouped } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { writeList, writeOne } from '../../terminal/output.js'
import { NAME_WIDTH, table } from '../../terminal/table.js'
import { noMatch } from '../shared/no-match.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, type FilterOptions, withCommonOptions, withFilterOptions } from '../shared/options.js'
import { taskFilter } from '../task/filter.js'

interface CountOptions extends CommonOptions, FilterOptions {
  readonly by?: readonly CountField[]
}

/** The fields by the names that the flags have for them. */
const FIELDS: Readonly<Record<string, CountField>> = {
  kind: 'kind',
  category: 'category',
  key: 'key',
  code: 'errorCode',
  reason: 'reason',
  group: 'group',
}

/** Adds `redrive dlq count`. */
export function addCount(dlq: Command, context: CommandContext): void {
  const count = dlq
    .command('count')
    .description('Count dead letters, by kind and error code for example')
    .option('--by <fields>', `Count by these fields: ${Object.keys(FIELDS).join(', ')}`, fieldsOf)
    .action(async (options: CountOptions) => context.end(await countLetters(context, options)))
  withCommonOptions(withFilterOptions(count)).addHelpText(
    'after',
    `
Examples:
  redrive dlq count
  redrive dlq count --by kind,code
  redrive dlq count --kind send-email --by code --output json`,
  )
}

function fieldsOf(text: string): CountField[] {
  return text.split(',').map(name => {
    const field = Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined
    if (field === undefined) {
      throw new InvalidArgumentError(`It must be one or several of ${Object.keys(FIELDS).join(', ')}, with commas.`)
    }
    return field
  })
}

function countLetters({ console, environment }: CommandContext, options: CountOptions): Promise<ExitCode> {
  const { by, output } = options
  return withStore(options, environment, async store => {
    const filter = { ...(await taskFilter(store, options)), status: 'dead' } as const
    if (by === undefined) {
      const { dead } = await store.count(filter)
      writeOne(console, output, { count: dead }, () => String(dead))
      if (dead === 0) console.say(await noMatch(store, 'dead letters', filter))
      return ExitCode.done
    }
    const counts = await countTasks(store, filter, by)
    writeList(console, output, counts, () => countTable(counts, by, console))
    if (counts.length === 0) console.say(await noMatch(store, 'dead letters', filter))
    return ExitCode.done
  })
}

function countTable(counts: readonly TaskCountView[], by: readonly CountField[], console: Console): string {
  const titles = Object.entries(FIELDS).flatMap(([name, field]) => (by.includes(field) ? [[field, name] as const] : []))
  const title = (field: CountField) => new Map(titles).get(field)?.toUpperCase() ?? ''
  const columns = [{ title: 'COUNT' }, ...by.map(field => ({ title: title(field), minWidth: NAME_WIDTH }))]
  const rows = counts.map(count => ({
    cells: [grouped(count.count), ...by.map(field => count[field] || '-')],
    paints: [console.paint.red],
  }))
  return table(columns, rows, console)
}
