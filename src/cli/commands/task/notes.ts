import type { TaskExplanation } from '../../../operate/index.js'
import type { AttemptNotesView, LogLineView, ProgressView } from '../../../operate/internal.js'
import { percent } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { paragraph } from '../../terminal/table.js'
import { relative, timestamp } from '../../terminal/times.js'
import { visible } from '../../terminal/visible.js'

/** How far the attempt under way has come, or the last one had, with its last lines; nothing if its handler told nothing. */
export function notesLines({ notes }: TaskExplanation, { width, paint }: Console, now: number): string[] {
  if (notes === null) return []
  const when = `${notes.isRunning ? 'reported' : 'ended'} ${relative(notes.at, now)}`
  return [
    '',
    `${paint.bold(visible(titleOf(notes)))} ${paint.dim(`(${when})`)}`,
    ...notes.log.flatMap(line => lineLines(line, width, '  ')),
  ]
}

/** `40 %: page 3 of 8` */
export function progressText({ fraction, text }: ProgressView): string {
  return text === null ? percent(fraction) : `${percent(fraction)}: ${text}`
}

function titleOf({ attempt, progress }: AttemptNotesView): string {
  return progress === null ? `Log of attempt ${attempt}` : `Attempt ${attempt} at ${progressText(progress)}`
}

/** `10:00:00Z  the text`, wrapped behind the time. */
function lineLines({ at, text }: LogLineView, width: number, indent: string): string[] {
  const head = `${indent}${timestamp(at).slice('2026-07-30 '.length)}  `
  const [first = '', ...rest] = paragraph(text, { width, indent: ' '.repeat(head.length) })
  return [head + first.slice(head.length), ...rest]
}

/** Says what is new of a task since it was last looked at: a line for each. */
export function newsLines(
  { status, reason, notes, attempts, losses }: TaskExplanation,
  before: TaskExplanation,
  { width, paint }: Console,
): string[] {
  const hasMoved = status !== before.status || attempts !== before.attempts
  const isSame = notes?.attempt === before.notes?.attempt
  const seen = (isSame && before.notes?.log.at(-1)) || undefined
  const log = notes?.log ?? []
  const first = log.findLastIndex(({ at, text }) => at === seen?.at && text === seen.text) + 1
  const progress = notes?.progress ? progressText(notes.progress) : undefined
  const isFurther = !isSame || progress !== (before.notes?.progress && progressText(before.notes.progress))
  return [
    ...(losses > before.losses ? [paint.yellow('lost: its worker died')] : []),
    ...log.slice(first).flatMap(line => lineLines(line, width, '')),
    ...(progress !== undefined && isFurther ? paragraph(progress, { width, indent: '' }).map(paint.cyan) : []),
    ...(hasMoved
      ? paragraph(reason === null ? status : `${status}: ${reason}`, { width, indent: '' }).map(paint.bold)
      : []),
  ]
}
