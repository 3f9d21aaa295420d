import type { Statements } from './statements.js'

/** The maximum number of due tasks that are made ready at once, so that no job takes long. The next one goes on. */
export const MAX_MADE_READY = 2000

/** Makes tasks ready that are due. Returns their number. Mostly there are none, and then it writes nothing. */
export function makeReady(statements: Statements, now: number): number {
  const nextAt = statements.nextScheduled.get() ?? Infinity
  return nextAt <= now ? statements.makeReady.run(now, MAX_MADE_READY).changes : 0
}
