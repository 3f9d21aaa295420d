import type { KindFigures, UnattendedTasks } from '../../../operate/internal.js'
import { formatDuration } from '../../../policy/index.js'
import { isItem } from '../../../store/internal.js'
import { suggest } from '../../suggest.js'
import { grouped } from '../../terminal/chart.js'

type Reason = 'paused' | 'held' | 'gated' | 'budgeted'
type Part = Pick<KindFigures, Reason | 'kind'>

/** Says which tasks wait for something other than their time or a worker: a sentence for each reason. */
export function keptBackTexts(parts: readonly Part[]): string[] {
  const sum = (field: Reason, of = parts) => of.reduce((total, part) => total + part[field], 0)
  const [held, gated, budgeted] = [sum('held'), sum('gated'), sum('budgeted')]
  // The lanes of a run are paused with it.
  const inRuns = sum('paused', parts.filter(isItem))
  const paused = sum('paused') - inRuns
  return [
    ...(inRuns > 0 ? [`${tasksText(inRuns)} in paused or stopped runs: ${suggest('pipeline ls')}`] : []),
    ...(paused > 0 ? [`${tasksText(paused)} in paused lanes: ${suggest('lane ls', { '--state': 'paused' })}`] : []),
    ...(held > 0 ? [`${tasksText(held)} in held lanes: ${suggest('lane ls', { '--state': 'held' })}`] : []),
    ...(gated > 0 ? [`${tasksText(gated)} behind a failure budget or a cost budget: ${suggest('budget ls')}`] : []),
    ...(budgeted > 0 ? [`${tasksText(budgeted)} for a retry budget to let them through: ${suggest('budget ls')}`] : []),
  ]
}

/** Says which tasks wait for a worker until their time to live is over. */
export function unattendedText({ kind, category, waiting, ttlMs }: UnattendedTasks): string {
  const what = `'${kind}'${category === '' ? '' : ` in category '${category}'`}`
  const end = `any worker gives each of them up ${formatDuration(ttlMs)} after it was due`
  return `${tasksText(waiting)} for a worker that runs ${what}; ${end}: ${suggest('task ls', { '--status': 'waiting', '--kind': kind })}`
}

/** `3 tasks wait` */
export function tasksText(count: number): string {
  return `${grouped(count)} ${count === 1 ? 'task waits' : 'tasks wait'}`
}
