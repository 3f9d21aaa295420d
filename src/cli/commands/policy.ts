import { type Command, Option } from 'commander'
import { type PolicyAdvice, reportYields, type YieldView } from '../../operate/index.js'
import { formatDuration } from '../../policy/index.js'
import type { CommandContext } from '../command.js'
import { ExitCode } from '../errors.js'
import { grouped, percent } from '../terminal/chart.js'
import type { Console } from '../terminal/console.js'
import { writeOne } from '../terminal/output.js'
import { NAME_WIDTH, table } from '../terminal/table.js'
import { withStore } from './open-store.js'
import { type CommonOptions, duration, nonEmpty, withCommonOptions } from './options.js'

interface ReportOptions extends CommonOptions {
  readonly kind?: string
  readonly since: number
}

const DAY = 86_400_000

/** Adds `redrive policy`. */
export function addPolicy(program: Command, context: CommandContext): void {
  const policy = program.command('policy').description('Report how much the retries of a policy help')
  const report = policy
    .command('report')
    .description('Show how often retries helped, and which policies to change')
    .option('--kind <kind>', 'Only tasks of this kind', nonEmpty)
    .addOption(
      new Option('--since <duration>', 'Count the failures of this long')
        .argParser(duration(1))
        .default(30 * DAY, '30d'),
    )
    .action(async (options: ReportOptions) => context.end(await printReport(context, options)))
  withCommonOptions(report).addHelpText(
    'after',
    `
Counts the retries that followed each error code, by the number of the attempt.
A share that may be chance comes with its range, with 95 % confidence.

Examples:
  redrive policy report
  redrive policy report --kind charge --since 7d
  redrive policy report --output json | jq '.advice[].patch'`,
  )
}

function printReport({ console, environment }: CommandContext, options: ReportOptions): Promise<ExitCode> {
  const { kind, since: periodMs, output } = options
  return withStore(options, environment, async store => {
    const report = await reportYields(store, { periodMs, ...(kind !== undefined && { kind }) })
    const { yields, advice } = report
    const period = formatDuration(periodMs)
    if (yields.length > 0 || output !== 'table') writeOne(console, output, report, () => yieldTable(yields, console))
    if (yields.length === 0) console.say(`No retries in the last ${period}.`)
    else if (advice.length === 0) console.say(noAdviceText(yields))
    for (const line of advice.flatMap(one => adviceLines(one, period))) console.say(line)
    return ExitCode.done
  })
}

/** Says whether there is nothing to change, or too little to go by. */
function noAdviceText(yields: readonly YieldView[]): string {
  const helpless = [...new Set(yields.map(({ code }) => code))].filter(code =>
    yields.every(row => row.code !== code || row.succeeded === 0),
  )
  if (helpless.length === 0) return 'No policy to change: retries have helped after each of these errors.'
  return `No retry has helped yet after ${helpless.join(', ')}, but too few were made to advise a change.`
}

function yieldTable(yields: readonly YieldView[], console: Console): string {
  const hasCategories = yields.some(({ category }) => category !== '')
  const columns = [
    { title: 'KIND', minWidth: NAME_WIDTH },
    ...(hasCategories ? [{ title: 'CATEGORY', minWidth: NAME_WIDTH }] : []),
    { title: 'AFTER', minWidth: NAME_WIDTH },
    { title: 'ATTEMPT' },
    { title: 'MADE' },
    { title: 'SUCCEEDED' },
    { title: 'SHARE' },
  ]
  const rows = yields.map(({ kind, category, code, attempt, made, succeeded, interval }) => ({
    cells: [
      kind,
      ...(hasCategories ? [category || '-'] : []),
      code,
      String(attempt),
      grouped(made),
      grouped(succeeded),
      `${percent(succeeded / made)} (${percent(interval.low)} to ${percent(interval.high)})`,
    ],
  }))
  return table(columns, rows, console)
}

/** Each line is said by itself, since names in it must not break lines. */
function adviceLines(advice: PolicyAdvice, period: string): string[] {
  const { kind, category, code, fromAttempt, toAttempt, tasks, succeeded, interval, saved, patch } = advice
  const where = category === '' ? kind : `${kind}, ${category}`
  const change = code === undefined ? `make at most ${fromAttempt - 1} attempts` : `make ${code} final`
  const attempts = fromAttempt === toAttempt ? `Attempt ${fromAttempt}` : `Attempts ${fromAttempt} to ${toAttempt}`
  const helped = succeeded === 0 ? 'none' : grouped(succeeded)
  return [
    '',
    `${where}: ${change}.`,
    `${attempts} helped ${helped} of ${grouped(tasks)} tasks in ${period}, at most ${percent(interval.high)} in the long run.`,
    `Without them there would have been ${grouped(saved)} attempts fewer.`,
    ...(patch === undefined ? [] : [`In its policy: ${JSON.stringify(patch)}`]),
  ]
}
