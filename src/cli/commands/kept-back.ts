import type { KindFigures } from '../../operate/index.js'
import { suggest } from '../suggest.js'
import { grouped } from '../terminal/chart.js'

type Reason = 'paused' | 'held' | 'gated' | 'budgeted'

/** Says which tasks wait for something other than their time or a worker: a sentence for each reason. */
export function keptBackTexts(parts: readonly Pick<KindFigures, Reason>[]): string[] {
  const sum = (field: Reason) => parts.reduce((total, part) => total + part[field], 0)
  const [paused, held, gated, budgeted] = [sum('paused'), sum('held'), sum('gated'), sum('budgeted')]
  return [
    ...(paused > 0 ? [`${tasksText(paused)} in paused lanes: ${suggest('lane ls', { '--state': 'paused' })}`] : []),
    ...(held > 0 ? [`${tasksText(held)} in held lanes: ${suggest('lane ls', { '--state': 'held' })}`] : []),
    ...(gated > 0 ? [`${tasksText(gated)} behind the gate of a failure budget: ${suggest('budget ls')}`] : []),
    ...(budgeted > 0 ? [`${tasksText(budgeted)} for a retry budget to let them through: ${suggest('budget ls')}`] : []),
  ]
}

/** `3 tasks wait` */
export function tasksText(count: number): string {
  return `${grouped(count)} ${count === 1 ? 'task waits' : 'tasks wait'}`
}
