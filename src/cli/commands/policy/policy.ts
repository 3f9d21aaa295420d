import { type Command, Option } from 'commander'
import { reportYields } from '../../../operate/index.js'
import type { PolicyAdvice, YieldView } from '../../../operate/internal.js'
import { formatDuration } from '../../../policy/index.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { grouped, percent } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { writeOne } from '../../terminal/output.js'
import { NAME_WIDTH, table } from '../../terminal/table.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, duration, nonEmpty, withCommonOptions } from '../shared/options.js'

interface ReportOptions extends CommonOptions {
  readonly kind?: string
  readonly since: number
}

const HOUR = 3_600_000
const DAY = 24 * HOUR

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
A share that may be chance comes with its range, with 95 % confidence. A change
is recommended only if retries failed on at least 3 days (UTC), since an outage
makes all of them fail.

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
    const { yields, advice, doubtful, since } = report
    const onRecord = spanText((await store.now()) - Date.parse(since))
    if (yields.length > 0 || output !== 'table') writeOne(console, output, report, () => yieldTable(yields, console))
    if (yields.length === 0) console.say(`No retries in the last ${formatDuration(periodMs)}.`)
    else if (advice.length + doubtful.length === 0) console.say(noAdviceText(yields))
    for (const line of advice.flatMap(one => adviceLines(one, onRecord))) console.say(line)
    for (const line of doubtful.flatMap(doubtLines)) console.say(line)
    return ExitCode.done
  })
}

/** Says whether there is nothing to change, or too little to go by. */
function noAdviceText(yields: readonly YieldView[]): string {
  const helpless = [...new Set(yields.map(({ code }) => code))].filter(code =>
    yields.every(row => row.code !== code || row.succeeded + row.recovered === 0),
  )
  if (helpless.length > 0) {
    return `No retry has helped yet after ${helpless.join(', ')}, but too few were made to advise a change.`
  }
  return yields.some(({ recovered }) => recovered > 0)
    ? 'No policy to change: after each of these errors, tasks have succeeded on a retry or after a redrive.'
    : 'No policy to change: retries have helped after each of these errors.'
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
function adviceLines(advice: PolicyAdvice, onRecord: string): string[] {
  const { code, fromAttempt, tasks, succeeded, interval, saved, patch } = advice
  const change = code === undefined ? `make at most ${fromAttempt - 1} attempts` : `make ${code} final`
  const share = `${succeeded === 0 ? 'None' : grouped(succeeded)} of ${grouped(tasks)} tasks`
  return [
    '',
    `${placeText(advice)}: ${change}.`,
    `${share} succeeded on ${attemptsText(advice)} or after a redrive in the ${onRecord} on record, at most ${percent(interval.high)} in the long run.`,
    `The change would have saved ${grouped(saved)} attempts.`,
    ...(patch === undefined ? [] : [`In its policy: ${JSON.stringify(patch)}`]),
  ]
}

function doubtLines(advice: PolicyAdvice): string[] {
  const { kind, category, code, days } = advice
  const retries = code === undefined ? attemptsText(advice) : `retries after ${code}`
  return [
    '',
    `${placeText(advice)}: ${retries} failed on ${days === 1 ? 'one day' : `${days} days`} only, which looks like an outage.`,
    'Advice needs failures on at least 3 days. Against outages, set a failure budget:',
    suggest('budget set', { '--kind': kind, '--category': category, '--failures': '50%' }),
  ]
}

function placeText({ kind, category }: PolicyAdvice): string {
  return category === '' ? kind : `${kind}, ${category}`
}

function attemptsText({ fromAttempt, toAttempt }: PolicyAdvice): string {
  return fromAttempt === toAttempt ? `attempt ${fromAttempt}` : `attempts ${fromAttempt} to ${toAttempt}`
}

/** `12 days`, or `30 hours`. Advice needs failures on three days, so the time on record is never shorter than a day. */
function spanText(ms: number): string {
  return ms < 3 * DAY ? `${Math.round(ms / HOUR)} hours` : `${Math.round(ms / DAY)} days`
}
