import type { KindFigures } from '../../operate/index.js'
import { grouped } from '../terminal/chart.js'

/** Says which tasks wait for something other than their time or a worker: a sentence for each reason. */
export function keptBackTexts(parts: readonly Pick<KindFigures, 'paused' | 'held' | 'gated'>[]): string[] {
  const sum = (field: 'paused' | 'held' | 'gated') => parts.reduce((total, part) => total + part[field], 0)
  const [paused, held, gated] = [sum('paused'), sum('held'), sum('gated')]
  return [
    ...(paused > 0 ? [`${tasksText(paused)} in paused lanes: redrive lane ls --state paused`] : []),
    ...(held > 0 ? [`${tasksText(held)} in held lanes: redrive lane ls --state held`] : []),
    ...(gated > 0 ? [`${tasksText(gated)} behind the gate of a failure budget: redrive budget ls`] : []),
  ]
}

/** `3 tasks wait` */
export function tasksText(count: number): string {
  return `${grouped(count)} ${count === 1 ? 'task waits' : 'tasks wait'}`
}
