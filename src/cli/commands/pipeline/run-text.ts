import type { RunReport, RunView } from '../../../operate/index.js'
import { formatDuration } from '../../../policy/index.js'
import type { Cost, ItemCounts, RunStatus } from '../../../store/internal.js'
import { suggest } from '../../suggest.js'
import { grouped, percent } from '../../terminal/chart.js'
import type { Console, Paint } from '../../terminal/console.js'
import { fields, type Layout, NAME_WIDTH, oneLine, table } from '../../terminal/table.js'
import { wrap } from '../../terminal/text-width.js'
import { moment, relative } from '../../terminal/times.js'
import { visible } from '../../terminal/visible.js'
import { costText } from '../shared/cost-text.js'

/** The most important first: an operator looks for the dead. */
const STATES = ['succeeded', 'skipped', 'dead', 'waiting', 'running', 'cancelled'] as const

/** A run, with the size of the trial that it began with, whether it was left alone, and what it has spent. */
export type ListedRun = RunView & {
  readonly trial?: number | undefined
  readonly isUnattended?: boolean
  readonly used?: Cost
}

/** The source error of a run whose process stopped without one. */
const READER_STOPPED = 'the process that read it stopped working on the run'

/** Runs as a table, with the problem of each below it. */
export function runTable(
  runs: readonly ListedRun[],
  { width, paint }: Console,
  { now, layout }: { readonly now: number; readonly layout: Layout },
): string {
  const columns = [
    { title: 'RUN', minWidth: 20 },
    { title: 'PIPELINE', minWidth: NAME_WIDTH },
    { title: 'STATUS' },
    { title: 'ITEMS' },
    { title: 'SUCCESS' },
    { title: 'DEAD' },
    { title: 'STARTED' },
  ]
  const rows = runs.map(run => ({
    cells: [
      run.id,
      run.pipeline,
      run.status,
      run.isRead ? grouped(run.total) : `${grouped(run.total)}…`,
      run.successRate === null ? '-' : percent(run.successRate),
      grouped(run.counts.dead),
      relative(run.createdAt, now),
    ],
    paints: [undefined, undefined, runPaint(run.status, paint)],
    details: problemLines(run, width),
  }))
  return table(columns, rows, { width, paint, layout })
}

/** A run's id, status and figures. */
export function runHead(run: ListedRun | RunReport, { width, paint }: Console, now: number): string {
  const text = fields(
    [
      ['pipeline', `${run.pipeline}, version ${run.version}`],
      ['started', moment(run.createdAt, now)],
      ['ended', run.endedAt === null ? undefined : `${moment(run.endedAt, now)}${again(run)}`],
      ['took', 'durationMs' in run ? tookText(run) : undefined],
      ['items', itemsText(run)],
      ['success', run.successRate === null ? undefined : percent(run.successRate)],
      ['cost', run.used === undefined ? undefined : costText(run.used) || undefined],
      ['source', sourceText(run)],
      ['stopped', stopText(run)],
      ['stuck', 'isUnattended' in run && run.isUnattended ? 'no process works on it' : undefined],
    ],
    { width, paint },
  )
  const title = wrap(`Run ${visible(run.id)}`, width - run.status.length - 2)
  return `${title.map(paint.bold).join('\n')}  ${runPaint(run.status, paint)(run.status)}\n${text}`
}

/** `968 succeeded, 12 skipped, 20 dead`, without the states that no item is in. */
export function countsText(counts: ItemCounts): string {
  const parts = STATES.filter(state => counts[state] > 0).map(state => `${grouped(counts[state])} ${state}`)
  return parts.length === 0 ? 'no items' : parts.join(', ')
}

/** The colour of a run's status. */
function runPaint(status: RunStatus, paint: Paint): (text: string) => string {
  switch (status) {
    case 'completed':
      return paint.green
    case 'running':
      return paint.cyan
    case 'paused':
    case 'interrupted':
    case 'partial_success':
      return paint.yellow
    case 'failed':
    case 'stopped':
      return paint.red
    case 'cancelled':
      return paint.dim
  }
}

function itemsText({ total, counts, duplicates }: RunView): string {
  const all = total === 0 ? 'none' : `${grouped(total)}: ${countsText(counts)}`
  return duplicates === 0 ? all : `${all}; ${grouped(duplicates)} duplicates in the source were left out`
}

function sourceText({ position, isRead, reader, sourceError, trial }: ListedRun): string {
  if (isRead) return 'read to its end'
  const where = `read up to item ${grouped(position)}`
  if (sourceError === READER_STOPPED && position === trial) return `${where}, then stopped after its trial`
  if (sourceError !== null && sourceError !== READER_STOPPED && position === 0)
    return `could not be read: ${sourceError}`
  if (sourceError !== null) return `${where}, then: ${sourceError}`
  return reader === null ? where : `${where}, by ${reader}`
}

function stopText({ stop }: RunView): string | undefined {
  if (stop === null) return undefined
  const { stage, processed, dead, rate, budget, cause } = stop
  const where = stage === null || stage === undefined ? '' : ` in ${stage}`
  const why = cause === undefined ? '' : `; ${percent(cause.share)} of them ${cause.errorCode} in ${cause.stage}`
  return `at ${percent(rate)} dead${where} (${grouped(dead)} of ${grouped(processed)}, budget ${percent(budget)})${why}`
}

function tookText({ durationMs, itemsPerSecond }: RunReport): string {
  return `${formatDuration(durationMs)}, ${Number(itemsPerSecond.toPrecision(3))} items per second`
}

function again({ endings }: RunView): string {
  return endings > 1 ? `, for the ${ordinal(endings)} time` : ''
}

function ordinal(count: number): string {
  return count === 2 ? 'second' : count === 3 ? 'third' : `${count}th`
}

function problemLines(run: ListedRun, width: number): string[] {
  const problem = problemOf(run)
  const lines = problem === undefined ? [] : [oneLine(problem, { width, indent: '  ' })]
  // Never clipped, so that it can be copied.
  return run.isUnattended ? [...lines, `    ${suggest('worker', {}, 'FILE')}`] : lines
}

function problemOf(run: ListedRun): string | undefined {
  if (run.isUnattended) return 'no process works on it. Start a worker that has code for it:'
  if (run.status === 'stopped') return stopText(run) && `stopped ${stopText(run)}`
  return run.status === 'interrupted' ? sourceText(run) : undefined
}
