import type { Settled, Settlement } from '../contract/claim.js'
import type { NewTask } from '../contract/task.js'

/** The tasks that follow deaths: those of settlements that have taken effect. `settled` are the answers, in their order. */
export function tasksIfDead(settlements: readonly Settlement[], settled: readonly Settled[]): readonly NewTask[] {
  const tasks: NewTask[] = []
  // Nearly all settlements have none, and a loop costs them nothing.
  for (const [n, { outcome, ifDead }] of settlements.entries())
    if (ifDead !== undefined && outcome.type === 'dead' && settled[n]?.result === 'settled') tasks.push(...ifDead)
  return tasks
}
