import type { Prunable } from '../contract/prunable.js'
import type { Retention } from '../contract/store.js'
import { FIRST_RUN_LANE } from '../rules/runs/items.js'
import type { Connection } from './driver.js'
import { IS_PRUNABLE } from './statements/retention.js'

/** Counts what could be pruned. */
export class PrunableCounts {
  readonly #count

  constructor(db: Connection) {
    this.#count = db.prepare<object, Prunable>(/* sql */ `
      WITH old_run AS (
        SELECT id FROM run INDEXED BY run_ended
        WHERE ended_at IS NOT NULL AND ended_at <= :ended AND (dead = 0 OR ended_at <= :dead)
      )
      SELECT
        (SELECT count(*) FROM task INDEXED BY task_ended
         WHERE state IN (4, 5, 7) AND state > 3 AND lane < ${FIRST_RUN_LANE} AND changed_at <= :ended AND ${IS_PRUNABLE}) AS tasks,
        (SELECT count(*) FROM task INDEXED BY task_ended
         WHERE state = 6 AND state > 3 AND lane < ${FIRST_RUN_LANE} AND changed_at <= :dead AND ${IS_PRUNABLE}) AS deadLetters,
        (SELECT count(*) FROM old_run) AS runs,
        (SELECT count(*) FROM old_run CROSS JOIN task
         ON task.id > old_run.id || ':' AND task.id < old_run.id || ';' AND task.lane >= ${FIRST_RUN_LANE}) AS items,
        (SELECT count(*) FROM idempotency INDEXED BY idempotency_done WHERE done_at <= :keys) AS keys,
        (SELECT count(*) FROM audit WHERE at <= :audit) AS records`)
  }

  read({ endedMs, deadMs, keysMs, auditMs }: Retention, now: number): Prunable {
    const before = (ms: number | undefined) => (ms === undefined ? null : now - ms)
    const ages = { ended: before(endedMs), dead: before(deadMs), keys: before(keysMs), audit: before(auditMs) }
    return this.#count.get(ages) ?? NOTHING
  }
}

const NOTHING: Prunable = { tasks: 0, deadLetters: 0, runs: 0, items: 0, keys: 0, records: 0 }
