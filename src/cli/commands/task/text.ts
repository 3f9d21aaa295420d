import type { TaskExplanation, TaskView } from '../../../operate/index.js'
import { failureWords } from '../../../operate/internal.js'
import type { TaskStatus } from '../../../store/index.js'
import { isItem } from '../../../store/internal.js'
import { withoutSecrets } from '../../../telemetry/index.js'
import { suggest } from '../../suggest.js'
import type { Console, Paint } from '../../terminal/console.js'
import { fields, ID_WIDTH, type Layout, NAME_WIDTH, oneLine, table } from '../../terminal/table.js'
import { wrap } from '../../terminal/text-width.js'
import { moment, relative } from '../../terminal/times.js'
import { visible } from '../../terminal/visible.js'
import type { NextStarts } from '../ops/next-start.js'
import { CODEC_ADVICE } from '../shared/codecs.js'
import { shortJson } from '../shared/short-json.js'

const STAGE = 'STAGE'

/** Tasks as a table. */
export function taskTable(
  tasks: readonly TaskView[],
  { width, paint }: Console,
  now: number,
  layout: Layout,
  starts: NextStarts,
): string {
  const columns = [
    { title: 'ID', minWidth: ID_WIDTH, isName: true },
    { title: 'KIND', minWidth: NAME_WIDTH, isName: true },
    { title: 'STATUS' },
    { title: 'RETRIES', isMinor: true },
    { title: 'CHANGED' },
    { title: 'NEXT' },
  ]
  const rows = tasks.map(task => ({
    cells: [
      task.id,
      task.kind,
      task.status,
      String(task.retryCount),
      relative(task.changedAt, now),
      starts.text(task, now),
    ],
    paints: [undefined, undefined, statusPaint(task.status, paint)],
    details: errorLine(task, width),
  }))
  return table(columns, rows, { width, paint, layout })
}

/** Dead letters as a table. */
export function letterTable(
  letters: readonly TaskView[],
  { width, paint }: Console,
  now: number,
  layout: Layout = {},
): string {
  const hasItems = layout.columns?.some(({ title }) => title === STAGE) ?? letters.some(isItem)
  const columns = [
    { title: 'ID', minWidth: ID_WIDTH, isName: true },
    { title: 'KIND', minWidth: NAME_WIDTH, isName: true },
    ...(hasItems ? [{ title: STAGE, minWidth: NAME_WIDTH, isName: true }] : []),
    { title: 'REASON' },
    { title: 'DIED' },
  ]
  const stageOf = (letter: TaskView) => (isItem(letter) ? letter.category : '')
  const rows = letters.map(letter => ({
    cells: [
      letter.id,
      letter.kind,
      ...(hasItems ? [stageOf(letter)] : []),
      letter.reason ?? '',
      relative(letter.changedAt, now),
    ],
    paints: [undefined, undefined, ...(hasItems ? [undefined] : []), paint.red],
    details: errorLine(letter, width),
  }))
  return table(columns, rows, { width, paint, layout })
}

function laneFields(task: TaskView): [string, string | undefined][] {
  const [category, key] = isItem(task) ? ['stage', 'run'] : ['category', 'key']
  return [
    ['kind', task.kind],
    [category, task.category || undefined],
    [key, task.key || undefined],
  ]
}

function lossesText({ losses }: TaskExplanation): string | undefined {
  if (losses === 0) return undefined
  return losses === 1 ? '1 (its worker died)' : `${losses} (its worker died; it runs alone)`
}

/** Says that a retry is due, and that its budget has not let it through. */
function heldText({ id, isBudgeted, nextAttemptAt }: TaskExplanation, now: number): string {
  const isHeld = isBudgeted && nextAttemptAt !== null && Date.parse(nextAttemptAt) <= now
  return isHeld ? `, held by its retry budget (${suggest('why', {}, id)})` : ''
}

/** `invoice-7, which another task has: it waits for that to end (redrive why order-42)` */
function uniqueText({ id, isQueued }: TaskExplanation, key: string): string {
  const queued = `, which another task has: it waits for that to end (${suggest('why', {}, id)})`
  return `${visible(key)}${isQueued ? queued : ''}`
}

/** A task's id, status and fields. */
export function taskText(task: TaskExplanation, { width, paint }: Console, now: number): string {
  const { status, nextAttemptAt, nextRetryAt } = task
  const isFirst = nextAttemptAt !== null && nextRetryAt === null
  const text = fields(
    [
      ...laneFields(task),
      ['unique key', task.uniqueKey === null ? undefined : uniqueText(task, task.uniqueKey)],
      ['priority', task.priority === 0 ? undefined : String(task.priority)],
      ['own policy', task.policy === null ? undefined : shortJson(task.policy)],
      ['submitted', moment(task.submittedAt, now)],
      [status === 'waiting' ? 'waiting since' : status, moment(task.changedAt, now)],
      ['next attempt', isFirst ? moment(nextAttemptAt, now) : undefined],
      ['retry count', retryCountText(task)],
      ['deferrals', task.deferrals === 0 ? undefined : String(task.deferrals)],
      ['losses', lossesText(task)],
      ['next retry', nextRetryAt === null ? 'none' : `${moment(nextRetryAt, now)}${heldText(task, now)}`],
      ['error class', task.errorClass ?? 'none'],
      ['error code', task.errorCode ?? undefined],
      ['error message', task.errorMessage ?? 'none'],
      ['reason', task.reason === null ? undefined : withoutSecrets(task.reason)],
      ...traceFields(task),
      ['encoded', task.unreadable === null ? undefined : `${task.unreadable} ${CODEC_ADVICE}`],
      ['payload', shortJson(task.payload)],
      ['stage input', task.value === null ? undefined : shortJson(task.value)],
      ['result', task.result === null ? undefined : shortJson(task.result)],
    ],
    { width, paint },
  )
  const title = wrap(`Task ${visible(task.id)}`, width - status.length - 2)
  return `${title.map(paint.bold).join('\n')}  ${statusPaint(status, paint)(status)}\n${text}`
}

/** The traces of its first and its last attempt, which are mostly one. */
function traceFields({ traces }: TaskExplanation): [string, string | undefined][] {
  if (traces === null) return []
  if (traces.first === traces.last) return [['trace', traces.first]]
  return [
    ['first trace', traces.first],
    ['last trace', traces.last],
  ]
}

function retryCountText({ retryCount, attempts, maxAttempts }: TaskExplanation): string {
  if (attempts === 0) return '0'
  const failed = `${attempts} failed ${attempts === 1 ? 'attempt' : 'attempts'}`
  return `${retryCount} (${maxAttempts === null ? failed : `${failed}, ${maxAttempts} allowed`})`
}

function errorLine(task: TaskView, width: number): string[] {
  const text = failureWords(task)
  return text === '' ? [] : [oneLine(text, { width, indent: '  ' })]
}

function statusPaint(status: TaskStatus, paint: Paint): (text: string) => string {
  switch (status) {
    case 'waiting':
      return paint.yellow
    case 'running':
      return paint.cyan
    case 'succeeded':
      return paint.green
    case 'dead':
      return paint.red
    case 'skipped':
    case 'cancelled':
      return paint.dim
  }
}
