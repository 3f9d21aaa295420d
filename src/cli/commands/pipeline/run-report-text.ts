import type { RunReport } from '../../../operate/index.js'
import type { AttemptYield, ErrorCount, RetryBucket, StageReport } from '../../../operate/internal.js'
import { formatDuration } from '../../../policy/index.js'
import { bar, grouped, percent } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { NAME_WIDTH, table } from '../../terminal/table.js'
import { pad } from '../../terminal/text-width.js'
import { costText } from '../shared/cost-text.js'
import { runHead } from './run-text.js'

/** The width of the longest bar of a chart. */
const BAR_WIDTH = 24
/** The rows of a chart. The last one holds all that follow. */
const CHART_ROWS = 8
/** The errors that are shown. JSON has more. */
const SHOWN_ERRORS = 10

/** The report of a run, for people. */
export function runReportText(report: RunReport, console: Console, now: number): string {
  const { paint } = console
  const section = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : ['', paint.bold(title), ...lines]
  return [
    runHead(report, console, now),
    ...section('Stages', [stageTable(report.stageReports, console)]),
    ...section('Cost of the stages', costLines(report)),
    ...section('Retries that items needed', retryChart(report.retries, console)),
    ...section('Attempts that succeeded', yieldChart(report.attempts, console)),
    ...section('Time that attempts took', durationChart(report.stageReports, console)),
    ...section('Most common errors', errorTable(report.errors, console)),
    ...section(
      'Error types',
      [errorTypes(report)].filter(line => line !== ''),
    ),
  ].join('\n')
}

function stageTable(stages: readonly StageReport[], { width, paint }: Console): string {
  const titles = ['PASSED', 'SKIPPED', 'DEAD', 'RELIABLE', 'ATTEMPTS', 'RETRIES', 'DEFERRED']
  const columns = [{ title: 'STAGE', minWidth: NAME_WIDTH }, ...titles.map(title => ({ title }))]
  const rows = stages.map(({ stage, passed, skipped, dead, reliability, attempts, retries, deferrals }) => ({
    cells: [
      stage,
      ...[passed, skipped, dead].map(grouped),
      reliability === null ? '-' : percent(reliability),
      ...[attempts, retries, deferrals].map(grouped),
    ],
    paints: [undefined, undefined, undefined, dead > 0 ? paint.red : undefined],
  }))
  return table(columns, rows, { width, paint })
}

/** The cost of each stage that has reported any. That of the run is in its head. */
function costLines({ stageReports }: RunReport): string[] {
  const stages = stageReports.filter(stage => Object.keys(stage.used).length > 0)
  const width = Math.max(...stages.map(({ stage }) => stage.length))
  return stages.map(({ stage, used }) => `  ${pad(stage, width)}  ${costText(used)}`)
}

/** Half of the attempts took no longer than P50. The bars compare P90. */
function durationChart(stages: readonly StageReport[], console: Console): string[] {
  const measured = stages.flatMap(({ stage, durations: { p50, p90, p99, max } }) =>
    p50 === null || p90 === null || p99 === null || max === null ? [] : [{ stage, p90, times: [p50, p90, p99, max] }],
  )
  const rows = measured.map(({ stage, p90, times }) => ({
    label: stage,
    share: p90,
    text: times.map((ms, i) => `${['p50', 'p90', 'p99', 'max'][i]} ${formatDuration(ms)}`).join(', '),
  }))
  return chart(rows, console)
}

interface ChartRow {
  readonly label: string
  readonly share: number
  readonly text: string
}

function retryChart(buckets: readonly RetryBucket[], console: Console): string[] {
  const all = buckets.reduce((sum, { items }) => sum + items, 0)
  const rows = folded(buckets, (a, b) => ({ ...a, items: a.items + b.items, dead: a.dead + b.dead })).map(
    ({ entry: { retries, items, dead }, isLast }) => ({
      label: isLast ? `${retries} or more` : String(retries),
      share: items / all,
      text: `${grouped(items)} (${percent(items / all)})${dead === 0 ? '' : `, ${grouped(dead)} dead`}`,
    }),
  )
  return chart(rows, console)
}

function yieldChart(attempts: readonly AttemptYield[], console: Console): string[] {
  const rows = folded(attempts, (a, b) => ({ ...a, made: a.made + b.made, succeeded: a.succeeded + b.succeeded })).map(
    ({ entry: { attempt, made, succeeded }, isLast }) => ({
      label: `attempt ${attempt}${isLast ? ' or later' : ''}`,
      share: succeeded / made,
      text: `${percent(succeeded / made)} (${grouped(succeeded)} of ${grouped(made)})`,
    }),
  )
  return chart(rows, console)
}

function errorTable(errors: readonly ErrorCount[], { width, paint }: Console): string[] {
  if (errors.length === 0) return []
  const columns = [
    { title: 'CODE', minWidth: NAME_WIDTH },
    { title: 'STAGE', minWidth: NAME_WIDTH },
    { title: 'TYPE' },
    { title: 'FAILURES' },
    { title: 'DEAD' },
  ]
  const rows = errors.slice(0, SHOWN_ERRORS).map(({ code, stage, type, failures, dead }) => ({
    cells: [code, stage, type, grouped(failures), grouped(dead)],
    paints: [undefined, undefined, undefined, undefined, dead > 0 ? paint.red : undefined],
  }))
  const more = errors.length > SHOWN_ERRORS ? [`… and ${errors.length - SHOWN_ERRORS} more: see --output json`] : []
  return [table(columns, rows, { width, paint }), ...more]
}

function errorTypes({ errorTypes: types }: RunReport): string {
  const found = Object.entries(types).filter(([, count]) => count > 0)
  return found.length === 0 ? '' : `  ${found.map(([type, count]) => `${type} ${grouped(count)}`).join(', ')}`
}

/** One line per row: its label, a bar that compares it with the longest one, and its figures. */
function chart(rows: readonly ChartRow[], { paint }: Console): string[] {
  const labelWidth = Math.max(0, ...rows.map(({ label }) => label.length))
  const most = Math.max(0, ...rows.map(({ share }) => share))
  const scale = most > 0 ? 1 / most : 0
  return rows.map(
    ({ label, share, text }) =>
      `  ${pad(label, labelWidth)}  ${paint.cyan(pad(bar(share * scale, BAR_WIDTH), BAR_WIDTH))}  ${text}`,
  )
}

/** At most as many entries as a chart has rows: the last one is the sum of all that would follow. */
function folded<T>(entries: readonly T[], add: (a: T, b: T) => T): { readonly entry: T; readonly isLast: boolean }[] {
  const shown = entries.slice(0, CHART_ROWS).map(entry => ({ entry, isLast: false }))
  const last = shown.at(-1)
  if (last === undefined || entries.length <= CHART_ROWS) return shown
  return [...shown.slice(0, -1), { entry: entries.slice(CHART_ROWS).reduce(add, last.entry), isLast: true }]
}
