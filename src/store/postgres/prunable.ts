import type { Prunable } from '../contract/prunable.js'
import type { EndedStatus, Retention } from '../contract/store.js'
import { keptMs, prunableTasks } from '../rules/retention.js'
import { State } from '../rules/task-state.js'
import { type Sql, wholeMs } from './database.js'

/** Counts what could be pruned. The lists of tasks that ended together are read, and not the tasks. */
export async function prunable(sql: Sql, keep: Retention): Promise<Prunable> {
  const { endedMs, deadMs, keysMs, auditMs } = keep
  const age = (ms: number | undefined) => (ms === undefined ? null : wholeMs(ms))
  const [row] = (await sql.query(COUNT, [endedMs, deadMs, keysMs, auditMs].map(age).concat(sql.at))) as PrunableRow[]
  const count = (name: keyof PrunableRow) => Number(row?.[name] ?? 0)
  const ofStatus = async (status: EndedStatus) => {
    const ms = keptMs(keep, status)
    if (ms === undefined && keep.counts?.[status] === undefined) return 0
    const [ended] = (await sql.query(ENDED, [State[status], age(ms), sql.at])) as EndedRow[]
    const number = (name: keyof EndedRow) => Number(ended?.[name] ?? 0)
    return prunableTasks(keep, status, { over: number('over'), deletable: number('deletable'), total: number('total') })
  }
  const [succeeded, skipped, cancelled, deadLetters] = [
    await ofStatus('succeeded'),
    await ofStatus('skipped'),
    await ofStatus('cancelled'),
    await ofStatus('dead'),
  ]
  return {
    tasks: succeeded + skipped + cancelled,
    deadLetters,
    runs: count('runs'),
    items: count('items'),
    keys: count('keys'),
    records: count('records'),
  }
}

type Count = string | number | null
type PrunableRow = Readonly<Record<'runs' | 'items' | 'keys' | 'records', Count>>
type EndedRow = Readonly<Record<'over' | 'deletable' | 'total', Count>>

/** Tasks that ended in a state: all, those that may be deleted, and those of them whose time is over. */
const ENDED = /* sql */ `
  WITH clock AS (
    SELECT redrive.now_ms($3::bigint) - $2::bigint AS before
  ), list AS (
    SELECT sum(cardinality(ended.tasks)) AS total, sum(cardinality(ended.tasks)) FILTER (WHERE ended.at <= clock.before) AS over
    FROM redrive.ended, clock WHERE ended.state = $1 AND ended.lane IS NULL
  ), kept AS (
    -- Members of batches, and dead letters that block their lane.
    SELECT count(*) AS total, count(*) FILTER (WHERE task.changed_at <= clock.before) AS over
    FROM clock, (
      SELECT member.id, member.changed_at FROM redrive.record JOIN redrive.task AS member
      ON member.id >= 'batch:' || record.id || ':' AND member.id < 'batch:' || record.id || ';'
      WHERE record.type = 'batch' AND member.state = $1
      UNION
      SELECT letter.id, letter.changed_at FROM redrive.task AS letter JOIN redrive.lane AS its ON its.id = letter.blocks
      WHERE letter.blocks IS NOT NULL AND letter.state = $1 AND letter.state = redrive.state_dead() AND its.blocking
        AND NOT redrive.has_items(letter.lane)
    ) AS task
  )
  SELECT list.total, list.total - kept.total AS deletable, list.over - kept.over AS over FROM list, kept`

const COUNT = /* sql */ `
  WITH clock AS (
    SELECT redrive.now_ms($5::bigint) AS now
  ), old_run AS (
    SELECT run.id FROM redrive.run, clock
    WHERE run.ended_at <= clock.now - $1::bigint AND (run.dead = 0 OR run.ended_at <= clock.now - $2::bigint)
  )
  SELECT
    (SELECT count(*) FROM old_run) AS runs,
    (SELECT count(*) FROM old_run JOIN redrive.task
     ON task.id > old_run.id || ':' AND task.id < old_run.id || ';' AND redrive.has_items(task.lane)) AS items,
    (SELECT count(*) FROM redrive.idempotency, clock WHERE done_at <= clock.now - $3::bigint) AS keys,
    (SELECT count(*) FROM redrive.audit, clock WHERE audit.at <= clock.now - $4::bigint) AS records`
