import type { StepView } from '../../../operate/internal.js'
import type { Console, Paint } from '../../terminal/console.js'
import { NAME_WIDTH, paragraph, table } from '../../terminal/table.js'
import { moment, timestamp } from '../../terminal/times.js'
import { shortJson } from '../shared/short-json.js'

const COLUMNS = [
  { title: 'STEP', minWidth: NAME_WIDTH, isName: true },
  { title: 'STATE' },
  { title: 'FAILED' },
  { title: 'LAST ATTEMPT' },
  { title: 'RESULT' },
]

/** The steps of a task as a table, under an empty line; nothing if it has none. */
export function stepLines(steps: readonly StepView[], { width, paint }: Console, now: number): string[] {
  if (steps.length === 0) return []
  const rows = steps.map(step => {
    const last = step.history.at(-1)
    return {
      cells: [
        step.name,
        step.status.replace('_', ' '),
        String(step.attempts),
        last === undefined ? '' : timestamp(last.endedAt),
        step.status === 'done' ? shortJson(step.result) : '',
      ],
      paints: [undefined, statePaint(step.status, paint)],
      details: detailsOf(step, now).flatMap(text => paragraph(text, { width, indent: '   ' })),
    }
  })
  return ['', table(COLUMNS, rows, { width, paint })]
}

function detailsOf({ status, reason, nextAttemptAt, history }: StepView, now: number): string[] {
  if (status === 'done') return []
  const error = history.at(-1)?.error ?? null
  const next = nextAttemptAt === null ? reason : `next attempt ${moment(nextAttemptAt, now)}`
  return [error, next].flatMap(text => text ?? [])
}

function statePaint(status: StepView['status'], paint: Paint): (text: string) => string {
  switch (status) {
    case 'done':
      return paint.green
    case 'waiting':
    case 'forgotten':
      return paint.yellow
    case 'given_up':
      return paint.red
  }
}
