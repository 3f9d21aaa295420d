import { type Command, InvalidArgumentError, Option } from 'commander'
import { type CostTotalView, costTotals } from '../../../operate/index.js'
import type { CostField } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import type { Console } from '../../terminal/console.js'
import { writeList } from '../../terminal/output.js'
import { NAME_WIDTH, table } from '../../terminal/table.js'
import { costText } from '../shared/cost-text.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, duration, nonEmpty, withCommonOptions } from '../shared/options.js'

interface CostOptions extends CommonOptions {
  readonly kind?: string
  readonly category?: string
  readonly key?: string
  readonly by: readonly CostField[]
  readonly since?: number
}

const FIELDS: readonly CostField[] = ['kind', 'category', 'key']

/** Adds `redrive cost`. */
export function addCost(program: Command, context: CommandContext): void {
  const cost = program
    .command('cost')
    .description('Add up what attempts have spent, as used() said')
    .option('--kind <kind>', 'Only tasks of this kind', nonEmpty)
    .option('--category <category>', 'Only tasks in this category', nonEmpty)
    .option('--key <key>', 'Only the tasks with this key', nonEmpty)
    .addOption(
      new Option('--by <fields>', `Add up by these fields: ${FIELDS.join(', ')}`)
        .argParser(fieldsOf)
        .default(['kind'], 'kind'),
    )
    .addOption(new Option('--since <duration>', 'Only the costs of this long').argParser(duration(1)))
    .action(async (options: CostOptions) => context.end(await printCosts(context, options)))
  withCommonOptions(cost).addHelpText(
    'after',
    `
Attempts count whatever became of them: those that failed too, those of dead
letters, and those of tasks that were pruned. Costs are kept by the hour, for as
long as audit records. The key of a task is its tenant, say; the category of an
item is its stage, and its key is its run.

Examples:
  redrive cost
  redrive cost --kind summarize --by key --since 24h
  redrive cost --by kind,category --output json | jq '.[].used.tokens'`,
  )
}

function fieldsOf(text: string): CostField[] {
  return text.split(',').map(name => {
    const field = FIELDS.find(known => known === name)
    if (field === undefined)
      throw new InvalidArgumentError(`It must be one or several of ${FIELDS.join(', ')}, with commas.`)
    return field
  })
}

function printCosts({ console, environment }: CommandContext, options: CostOptions): Promise<ExitCode> {
  const { kind, category, key, by, since, output } = options
  return withStore(options, environment, async store => {
    const period = since === undefined ? {} : { since: (await store.now()) - since }
    const totals = await costTotals(store, { kind, category, key, ...period }, by)
    writeList(console, output, totals, () => costTable(totals, by, console))
    if (totals.length === 0) {
      const isFiltered = [kind, category, key, since].some(given => given !== undefined)
      console.say(isFiltered ? 'No costs match.' : 'No attempt has told what it has spent: see used() of tasks.')
    }
    return ExitCode.done
  })
}

function costTable(totals: readonly CostTotalView[], by: readonly CostField[], console: Console): string {
  const columns = [...by.map(field => ({ title: field.toUpperCase(), minWidth: NAME_WIDTH })), { title: 'USED' }]
  const rows = totals.map(total => ({ cells: [...by.map(field => total[field] || '-'), costText(total.used)] }))
  return table(columns, rows, console)
}
