import type { Settled } from '../../contract/claim.js'
import type { Lane } from '../../contract/lane.js'
import { isItem } from './items.js'

/** The answers to settlements, where those to items of runs that these have stopped say so. */
export function markStopped(
  answers: Settled[],
  stopped: ReadonlySet<string>,
  laneOf: (index: number) => Lane | undefined,
): Settled[] {
  if (stopped.size === 0) return answers
  return answers.map((answer, index) => {
    const lane = laneOf(index)
    return lane !== undefined && isItem(lane) && stopped.has(lane.key) ? { ...answer, isStopped: true } : answer
  })
}
