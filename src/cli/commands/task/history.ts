import type { LedgerRowView, TaskExplanation } from '../../../operate/index.js'
import { formatDuration } from '../../../policy/index.js'
import { withoutSecrets } from '../../../telemetry/index.js'
import type { Console, Paint } from '../../terminal/console.js'
import { NAME_WIDTH, paragraph, table } from '../../terminal/table.js'
import { timestamp } from '../../terminal/times.js'
import { visible } from '../../terminal/visible.js'
import { costText } from '../shared/cost-text.js'
import { shortJson } from '../shared/short-json.js'
import { progressText } from './notes.js'

const COLUMNS = [
  { title: '#' },
  { title: 'STARTED' },
  { title: 'TOOK' },
  { title: 'OUTCOME' },
  { title: 'VERDICT', minWidth: NAME_WIDTH },
  { title: 'DELAY' },
]

/** The history of a task as a table: a row for each attempt, with its error below. */
export function historyTable({ history, status }: TaskExplanation, { width, paint }: Console): string {
  if (history.length === 0) return paint.dim(status === 'running' ? 'No attempt has ended yet.' : 'No attempts yet.')
  // Items of a pipeline go through stages. Other tasks are in one category all their life.
  const isOfItem =
    new Set(history.map(({ category }) => category)).size > 1 || history.some(row => row.version !== null)
  const rows = history.map(row => ({
    cells: [...(isOfItem ? [row.category ?? ''] : []), ...cellsOf(row)],
    paints: [...(isOfItem ? [undefined] : []), undefined, undefined, undefined, paintOf(row.outcome, paint)],
    details: detailsOf(row, width),
  }))
  const stage = { title: 'STAGE', minWidth: NAME_WIDTH }
  return table(isOfItem ? [stage, ...COLUMNS] : COLUMNS, rows, { width, paint })
}

/** Where the code of a task failed last, under a title; nothing if no stack is on record. */
export function stackLines({ stack }: TaskExplanation, { paint }: Console): string[] {
  if (stack === null) return []
  // Never wrapped, so that the places can be copied.
  return ['', paint.bold('Where it last failed'), ...stack.split('\n').map(line => `  ${visible(line)}`)]
}

function cellsOf(row: LedgerRowView): string[] {
  const { attempt, startedAt, endedAt, outcome, verdict, delayMs } = row
  const isAttempt = !isByPerson(row)
  return [
    isAttempt ? String(attempt) : '-',
    timestamp(startedAt),
    isAttempt ? formatDuration(Date.parse(endedAt) - Date.parse(startedAt)) : '',
    outcome,
    verdict === null ? '' : [...new Set([verdict.class, verdict.code])].join(' ').trim(),
    delayMs === null ? '' : formatDuration(delayMs),
  ]
}

/** Whether a row is no attempt, but what a person did. */
function isByPerson({ attempt }: LedgerRowView): boolean {
  return attempt === 0
}

function detailsOf(row: LedgerRowView, width: number): string[] {
  const { outcome, worker, release, reason, error, payloadBefore, step, used, unusedSteps, progress } = row
  const by = reason === null ? `by ${worker}` : `by ${worker}: ${withoutSecrets(reason)}`
  const why = outcome === 'skipped' || outcome === 'succeeded' ? reason : null
  // A bad machine or release shows where attempts failed.
  const where = error === null ? null : `on ${worker}${release === null ? '' : `, release ${release}`}`
  const texts = isByPerson(row) ? [by] : [error ?? why, where].filter(text => text !== null)
  // The text of an error names its step.
  if (step !== null && error === null) texts.push(`waits for its step '${step}'`)
  if (progress !== null) texts.push(`was at ${progressText(progress)}`)
  if (used !== null) texts.push(`used ${costText(used)}`)
  if (unusedSteps.length > 0) texts.push(`did not use these steps on record: ${unusedSteps.join(', ')}`)
  if (outcome === 'edited' || payloadBefore !== null) texts.push(`payload before: ${shortJson(payloadBefore)}`)
  return texts.flatMap(text => paragraph(text, { width, indent: '   ' }))
}

function paintOf(outcome: LedgerRowView['outcome'], paint: Paint): (text: string) => string {
  switch (outcome) {
    case 'succeeded':
    case 'advanced':
      return paint.green
    case 'dead':
      return paint.red
    case 'retry':
    case 'deferred':
    case 'lost':
      return paint.yellow
    case 'redriven':
      return paint.cyan
    case 'skipped':
    case 'later':
    case 'cancelled':
    case 'undone':
    case 'edited':
    case 'promoted':
    case 'rescheduled':
    case 'prioritized':
    case 'cancel_requested':
    case 'discarded':
    case 'completed':
    case 'failed':
      return paint.dim
  }
}
