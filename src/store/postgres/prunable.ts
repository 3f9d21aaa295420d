import type { Prunable } from '../contract/prunable.js'
import type { Retention } from '../contract/store.js'
import { type Sql, wholeMs } from './database.js'

/** Counts what could be pruned. The lists of tasks that ended together are read, and not the tasks. */
export async function prunable(sql: Sql, keep: Retention): Promise<Prunable> {
  const { endedMs, deadMs, keysMs, auditMs } = keep
  const ages = [endedMs, deadMs, keysMs, auditMs].map(age => (age === undefined ? null : wholeMs(age)))
  const [row] = (await sql.query(COUNT, [...ages, sql.at])) as PrunableRow[]
  const count = (name: keyof Prunable) => Number(row?.[name] ?? 0)
  return {
    tasks: count('tasks'),
    deadLetters: count('deadLetters'),
    runs: count('runs'),
    items: count('items'),
    keys: count('keys'),
    records: count('records'),
  }
}

type PrunableRow = Readonly<Record<keyof Prunable, string | number | null>>

const COUNT = /* sql */ `
  WITH clock AS (
    SELECT redrive.now_ms($5::bigint) AS now
  ), old_run AS (
    SELECT run.id FROM redrive.run, clock
    WHERE run.ended_at <= clock.now - $1::bigint AND (run.dead = 0 OR run.ended_at <= clock.now - $2::bigint)
  ), member AS (
    -- Of batches: they stay. A member that blocks its lane is counted as such.
    SELECT task.state, task.changed_at FROM redrive.record JOIN redrive.task
    ON task.id >= 'batch:' || record.id || ':' AND task.id < 'batch:' || record.id || ';'
    WHERE record.type = 'batch' AND task.state > redrive.state_running() AND NOT (
      task.state = redrive.state_dead() AND task.blocks IS NOT NULL
        AND (SELECT its.blocking FROM redrive.lane AS its WHERE its.id = task.blocks))
  )
  SELECT
    (SELECT sum(cardinality(ended.tasks)) FROM redrive.ended, clock
     WHERE ended.state IN (redrive.state_succeeded(), redrive.state_skipped(), redrive.state_cancelled())
       AND ended.lane IS NULL AND ended.at <= clock.now - $1::bigint) - (
      SELECT count(*) FROM clock, member
      WHERE member.state <> redrive.state_dead() AND member.changed_at <= clock.now - $1::bigint
    ) AS tasks,
    (SELECT sum(cardinality(ended.tasks)) FROM redrive.ended, clock
     WHERE ended.state = redrive.state_dead() AND ended.lane IS NULL
       AND ended.at <= clock.now - $2::bigint) - (
      SELECT count(*) FROM clock, redrive.task AS letter JOIN redrive.lane AS its ON its.id = letter.blocks
      WHERE letter.blocks IS NOT NULL AND letter.state = redrive.state_dead() AND its.blocking
        AND NOT redrive.has_items(letter.lane) AND letter.changed_at <= clock.now - $2::bigint
    ) - (
      SELECT count(*) FROM clock, member
      WHERE member.state = redrive.state_dead() AND member.changed_at <= clock.now - $2::bigint
    ) AS "deadLetters",
    (SELECT count(*) FROM old_run) AS runs,
    (SELECT count(*) FROM old_run JOIN redrive.task
     ON task.id > old_run.id || ':' AND task.id < old_run.id || ';' AND redrive.has_items(task.lane)) AS items,
    (SELECT count(*) FROM redrive.idempotency, clock WHERE done_at <= clock.now - $3::bigint) AS keys,
    (SELECT count(*) FROM redrive.audit, clock WHERE audit.at <= clock.now - $4::bigint) AS records`
