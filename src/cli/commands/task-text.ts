import type { LedgerRow, Store, TaskRecord, TaskStatus } from '../../store/index.js'
import { redact } from '../../telemetry/index.js'
import type { Console, Paint } from '../terminal/console.js'
import { fields, oneLine, table } from '../terminal/table.js'
import { moment, relative } from '../terminal/times.js'
import { visible } from '../terminal/visible.js'
import { nextRetryAt, retryCount } from './task-view.js'

/** Longer payloads and results are cut, and what looks secret in them is left out; `--output json` has all of them. */
const MAX_JSON = 500

/** Tasks as a table. */
export function taskTable(tasks: readonly TaskRecord[], { width, paint }: Console, now: number): string {
  const columns = [
    { title: 'ID' },
    { title: 'KIND', mayShrink: true },
    { title: 'STATUS' },
    { title: 'RETRIES' },
    { title: 'NEXT' },
  ]
  const rows = tasks.map(task => ({
    cells: [task.id, task.kind, task.status, String(retryCount(task)), nextOf(task, now)],
    paints: [undefined, undefined, statusPaint(task.status, paint)],
    details: errorLine(task, width),
  }))
  return table(columns, rows, { width, paint })
}

/** Dead letters as a table. */
export function letterTable(letters: readonly TaskRecord[], { width, paint }: Console, now: number): string {
  const columns = [{ title: 'ID' }, { title: 'KIND', mayShrink: true }, { title: 'REASON' }, { title: 'DIED' }]
  const rows = letters.map(letter => ({
    cells: [letter.id, letter.kind, letter.reason ?? '', relative(letter.changedAt, now)],
    paints: [undefined, undefined, paint.red],
    details: errorLine(letter, width),
  }))
  return table(columns, rows, { width, paint })
}

/** Its name, its state and its fields. */
export function taskText(task: TaskRecord, { width, paint }: Console, now: number, maxAttempts?: number): string {
  const { status, attempts } = task
  const retryAt = nextRetryAt(task)
  const failed = `${attempts} failed ${attempts === 1 ? 'attempt' : 'attempts'}`
  const used = maxAttempts === undefined ? failed : `${failed}, ${maxAttempts} allowed`
  const text = fields(
    [
      ['kind', task.kind],
      ['category', task.category || undefined],
      ['key', task.key || undefined],
      ['priority', task.priority === 0 ? undefined : String(task.priority)],
      ['submitted', moment(task.submittedAt, now)],
      [status === 'waiting' ? 'waiting since' : status, moment(task.changedAt, now)],
      ['next attempt', retryAt === undefined && task.nextAttemptAt ? moment(task.nextAttemptAt, now) : undefined],
      ['retry count', attempts === 0 ? '0' : `${retryCount(task)} (${used})`],
      ['deferrals', task.deferrals === 0 ? undefined : String(task.deferrals)],
      ['losses', task.losses === 0 ? undefined : `${task.losses} (its worker died; it runs alone)`],
      ['next retry', retryAt === undefined ? 'none' : moment(retryAt, now)],
      ['error class', task.errorClass ?? 'none'],
      ['error code', task.errorCode],
      ['error message', task.errorMessage ?? 'none'],
      ['reason', task.reason],
      ['payload', cut(task.payload)],
      ['result', task.result === undefined ? undefined : cut(task.result)],
    ],
    { width, paint },
  )
  return `${paint.bold(`Task ${visible(task.id)}`)}  ${statusPaint(status, paint)(status)}\n${text}`
}

/** How many attempts the policy allows that decided last, if one has. */
export async function maxAttemptsOf(store: Store, history: readonly LedgerRow[]): Promise<number | undefined> {
  const hash = history.findLast(row => row.policy !== undefined)?.policy
  const json = hash === undefined ? undefined : await store.policies.get(hash)
  if (json === undefined) return undefined
  const policy: unknown = JSON.parse(json)
  const isPolicy = typeof policy === 'object' && policy !== null && 'attempts' in policy
  return isPolicy && typeof policy.attempts === 'number' ? policy.attempts : undefined
}

function errorLine({ errorCode, errorMessage }: TaskRecord, width: number): string[] {
  const text = [errorCode, errorMessage].filter(part => part !== undefined).join(': ')
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

function nextOf({ nextAttemptAt }: TaskRecord, now: number): string {
  if (nextAttemptAt === undefined) return ''
  return nextAttemptAt <= now ? 'now' : relative(nextAttemptAt, now)
}

function cut(json: string): string {
  const text = redact(json)
  return json.length <= MAX_JSON ? text : `${text.slice(0, MAX_JSON)}… (${json.length} characters: see --output json)`
}
