import type { By } from '../contract/ledger.js'
import type { UndonePage } from '../port/operation-port.js'
import type { Steps, Tx } from '../port/steps.js'
import { arrangementBefore } from '../rules/arrange.js'
import { livingMembers } from './search.js'

/** Gives tasks that wait the time and the priority back that they had before an operation changed them, of a page of tasks. */
export function* restoreArranged(
  tx: Tx,
  operation: string,
  after: string,
  limit: number,
  by: By,
  now: number,
): Steps<UndonePage> {
  const scope = { filter: {}, until: Number.MAX_SAFE_INTEGER }
  const { items, next } = yield* livingMembers(tx, scope, { limit, after })
  const waiting = items.filter(({ standing }) => standing !== 'running')
  const ledgers = yield* tx.reads.ledgers(waiting.map(({ id }) => id))
  const back = waiting.flatMap((task, index) => arrangementBefore(task, ledgers[index]?.at(-1), operation) ?? [])
  const undone = (yield* tx.tasks.arrange(back, 'undone', by, now, undefined)).length
  return next === undefined ? { undone } : { undone, next }
}
