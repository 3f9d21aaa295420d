import type { Promised } from '../port/steps.js'
import type { Item, TaskPort } from '../port/task-port.js'
import { mayBeItem } from '../rules/runs/items.js'
import type { Sql } from './database.js'
import type { Enqueues } from './enqueue.js'
import { byValues, inOrder } from './operators.js'

/** The primitives of tasks on PostgreSQL. Its functions read the clock by themselves. */
export function postgresTaskPort({ call, at }: Sql, enqueues: Enqueues): Promised<TaskPort> {
  return {
    now: async () => Number(await call('now_ms', [at])),
    appendAudit: async record => {
      await call('append_audit', [JSON.stringify([record]), at])
    },
    enqueue: async tasks => (await enqueues.enqueueWith(call, tasks)).map(({ isNew }) => isNew),
    redrive: async (ids, by, _, part) => {
      const values = [ids, ...byValues(by), part?.operation ?? null, part?.diedUntil ?? null, at]
      return inOrder(ids, await call('redrive', values))
    },
    discard: async (ids, by, _, part) => {
      const values = [ids, ...byValues(by), part?.operation ?? null, part?.diedUntil ?? null, at]
      return inOrder(ids, await call('discard', values))
    },
    cancel: async (ids, by) => inOrder(ids, await call('cancel', [ids, ...byValues(by), at])),
    itemsOf: async ids => {
      const few = ids.filter(mayBeItem)
      if (few.length === 0) return new Map()
      const rows = (await call('item_runs', [few])) as readonly (Omit<Item, 'changedAt'> & { changed_at: number })[]
      return new Map(rows.map(({ changed_at: changedAt, ...item }) => [item.id, { ...item, changedAt }]))
    },
  }
}
