import type { BatchExplanation, BatchView } from '../../../operate/index.js'
import { suggest } from '../../suggest.js'
import { grouped } from '../../terminal/chart.js'
import type { Console, Paint } from '../../terminal/console.js'
import { fields, type Layout, NAME_WIDTH, table } from '../../terminal/table.js'
import { wrap } from '../../terminal/text-width.js'
import { moment, relative } from '../../terminal/times.js'
import { visible } from '../../terminal/visible.js'
import { countsText } from '../pipeline/run-text.js'

const COLUMNS = [
  { title: 'BATCH', minWidth: NAME_WIDTH, isName: true },
  { title: 'STATUS' },
  { title: 'TASKS' },
  { title: 'LEFT' },
  { title: 'DEAD' },
  { title: 'OPENED' },
]

/** Batches as a table. */
export function batchTable(
  batches: readonly BatchView[],
  { width, paint }: Console,
  now: number,
  layout: Layout,
): string {
  const rows = batches.map(({ name, status, total, counts, createdAt }) => ({
    cells: [
      name,
      status,
      status === 'filling' ? `${grouped(total)}…` : grouped(total),
      grouped(counts.waiting + counts.running),
      grouped(counts.dead),
      relative(createdAt, now),
    ],
    paints: [undefined, statusPaint(status, paint)],
  }))
  return table(COLUMNS, rows, { width, paint, layout })
}

/** A batch with its counts, its dead letters, and what can be done about them. */
export function batchText(batch: BatchExplanation, { width, paint }: Console, now: number): string {
  const { name, status, counts, createdAt, endedAt, endings, reopened, deaths } = batch
  const text = fields(
    [
      ['tasks', countsText(counts).replace('no items', 'none')],
      ['opened', moment(createdAt, now)],
      [
        'ended',
        endedAt === null
          ? undefined
          : `${moment(endedAt, now)}${endings > 1 ? `, for the ${ordinal(endings)} time` : ''}`,
      ],
      ['reopened', reopened === null ? undefined : reopenedText(reopened, now)],
      ['then', thenText(batch)],
      ...deaths.map(({ kind, code, count }, n): [string, string] => [
        n === 0 ? 'dead' : '',
        `${grouped(count)} ${kind}: ${code ?? 'no code'}`,
      ]),
      ['next', nextText(batch)],
    ],
    { width, paint },
  )
  const title = wrap(`Batch ${visible(name)}`, width - status.length - 2)
  return `${title.map(paint.bold).join('\n')}  ${statusPaint(status, paint)(status)}\n${text}`
}

function reopenedText({ at, who, why, tasks }: NonNullable<BatchView['reopened']>, now: number): string {
  const reason = why === null ? '' : `: ${why}`
  return `${moment(at, now)} by ${who}, who redrove ${grouped(tasks)} of its dead letters${reason}`
}

/** The task that follows the end. */
function thenText({ onEnd, followedBy, endedAt }: BatchExplanation): string | undefined {
  if (onEnd === null) return undefined
  if (followedBy === null || endedAt === null) return `${onEnd}, when all of its tasks have ended`
  return `${followedBy.id}: ${followedBy.status ?? 'pruned'}`
}

function nextText({ name, status, counts }: BatchExplanation): string | undefined {
  if (status === 'filling') return `${suggest('batch close', {}, name)}, unless its producer is still adding tasks`
  if (counts.dead > 0) return suggest('dlq redrive', { '--batch': name })
  return undefined
}

function statusPaint(status: BatchView['status'], paint: Paint): (text: string) => string {
  switch (status) {
    case 'completed':
      return paint.green
    case 'filling':
    case 'running':
      return paint.cyan
    case 'partial_success':
      return paint.yellow
    case 'failed':
      return paint.red
  }
}

function ordinal(n: number): string {
  const teens = n % 100 > 10 && n % 100 < 14
  const ending = teens ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th')
  return `${n}${ending}`
}
