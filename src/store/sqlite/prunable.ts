import type { Prunable } from '../contract/prunable.js'
import type { EndedStatus, Retention } from '../contract/store.js'
import { keptMs, prunableTasks } from '../rules/retention.js'
import { FIRST_RUN_LANE } from '../rules/runs/items.js'
import { State } from '../rules/task-state.js'
import type { Connection } from './driver.js'
import { IS_PRUNABLE } from './statements/retention.js'

/** Counts what could be pruned. */
export class PrunableCounts {
  readonly #count
  readonly #ended

  constructor(db: Connection) {
    this.#ended = db.prepare<{ state: number; before: number | null }, Ended>(/* sql */ `
      SELECT count(*) AS total, ifnull(sum(${IS_PRUNABLE}), 0) AS deletable,
        ifnull(sum(changed_at <= :before AND ${IS_PRUNABLE}), 0) AS over
      FROM task INDEXED BY task_ended WHERE state = :state AND state > 3 AND lane < ${FIRST_RUN_LANE}`)
    this.#count = db.prepare<object, Omit<Prunable, 'tasks' | 'deadLetters'>>(/* sql */ `
      WITH old_run AS (
        SELECT id FROM run INDEXED BY run_ended
        WHERE ended_at IS NOT NULL AND ended_at <= :ended AND (dead = 0 OR ended_at <= :dead)
      )
      SELECT
        (SELECT count(*) FROM old_run) AS runs,
        (SELECT count(*) FROM old_run CROSS JOIN task
         ON task.id > old_run.id || ':' AND task.id < old_run.id || ';' AND task.lane >= ${FIRST_RUN_LANE}) AS items,
        (SELECT count(*) FROM idempotency INDEXED BY idempotency_done WHERE done_at <= :keys) AS keys,
        (SELECT count(*) FROM audit WHERE at <= :audit) AS records`)
  }

  read(keep: Retention, now: number): Prunable {
    const { endedMs, deadMs, keysMs, auditMs } = keep
    const before = (ms: number | undefined) => (ms === undefined ? null : now - ms)
    const ages = { ended: before(endedMs), dead: before(deadMs), keys: before(keysMs), audit: before(auditMs) }
    const ofStatus = (status: EndedStatus) => {
      const ms = keptMs(keep, status)
      if (ms === undefined && keep.counts?.[status] === undefined) return 0
      return prunableTasks(keep, status, this.#ended.get({ state: State[status], before: before(ms) }) ?? NONE)
    }
    return {
      tasks: ofStatus('succeeded') + ofStatus('skipped') + ofStatus('cancelled'),
      deadLetters: ofStatus('dead'),
      ...(this.#count.get(ages) ?? NOTHING),
    }
  }
}

/** Tasks that ended in a status: all, those that may be deleted, and those of them whose time is over. */
interface Ended {
  readonly total: number
  readonly deletable: number
  readonly over: number
}

const NONE: Ended = { total: 0, deletable: 0, over: 0 }
const NOTHING = { runs: 0, items: 0, keys: 0, records: 0 }
