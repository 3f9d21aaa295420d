-- Views for your own queries and dashboards: docs/sql.md is their contract. Columns are only ever added, at the end, since
-- PostgreSQL refuses any other change of a view that others depend on. They repeat the numbers of states, since nothing in
-- the schema may depend on a function that can be replaced. As barriers, they show a reader's own functions no row that they
-- leave out: `dead_letters` has payloads, and those of living tasks are not for everybody.

-- Every attempt: those in the ledger, and those that tasks succeeded with, which are in the task's own row.
CREATE VIEW redrive.attempts WITH (security_barrier) AS
  SELECT ledger.task, lane.kind, ledger.category, lane.key, ledger.sequence,
    ledger.attempt, ledger.outcome, ledger.error_class AS class, ledger.error_code AS code, ledger.error, ledger.reason,
    ledger.delay_ms, ledger.worker, to_timestamp(ledger.started_at / 1000.0) AS started_at,
    to_timestamp(ledger.ended_at / 1000.0) AS ended_at, ledger.ended_at - ledger.started_at AS duration_ms,
    ledger.trace, ledger.release, ledger.failure_group
  FROM redrive.ledger
  JOIN redrive.task ON task.id = ledger.task
  JOIN redrive.lane ON lane.id = task.lane
  WHERE ledger.attempt > 0
  UNION ALL
  SELECT task.id, lane.kind, lane.category, lane.key, task.entries, task.ran_attempt, 'succeeded', NULL, NULL, NULL, NULL,
    NULL, task.worker, to_timestamp(task.ran_from / 1000.0), to_timestamp(task.ran_to / 1000.0),
    task.ran_to - task.ran_from,
    CASE WHEN task.entries = 1
        OR NOT EXISTS (SELECT FROM redrive.ledger AS earlier WHERE earlier.task = task.id AND earlier.attempt > 0)
      THEN substr(task.traceparent, 4, 32) END,
    task.release, NULL
  FROM redrive.task
  JOIN redrive.lane ON lane.id = task.lane
  WHERE task.state = 4 AND task.ran_attempt IS NOT NULL  -- succeeded
    AND NOT EXISTS (
      SELECT FROM redrive.ledger WHERE ledger.task = task.id AND ledger.sequence = task.entries
    );

-- Found by the lists of tasks that ended together, so that the table of tasks is not read as a whole.
CREATE VIEW redrive.dead_letters WITH (security_barrier) AS
  SELECT task.id, lane.kind, lane.category, lane.key, task.reason, task.error_class AS class, task.error_code AS code,
    task.error_message AS error, task.attempts, task.deferrals, task.losses, task.payload,
    to_timestamp(task.submitted_at / 1000.0) AS submitted_at, to_timestamp(ended.at / 1000.0) AS died_at,
    task.failure_group
  FROM redrive.ended
  CROSS JOIN LATERAL unnest(ended.tasks) AS one (id)
  JOIN redrive.task ON task.id = one.id AND task.changed_at = ended.at AND task.state = 6
  JOIN redrive.lane ON lane.id = task.lane
  WHERE ended.state = 6;  -- dead

-- The figures are those of redrive groups ls: changes by hour, to be added up. The state is the last mark, or `regressed`.
CREATE VIEW redrive.failure_groups WITH (security_barrier) AS
  SELECT its.id, its.kind, its.code, its.pattern, coalesce(sum(tally.seen), 0)::bigint AS seen,
    coalesce(sum(tally.retrying), 0)::bigint AS retrying, coalesce(sum(tally.dead), 0)::bigint AS dead,
    to_timestamp(its.first_seen / 1000.0) AS first_seen,
    to_timestamp(greatest(its.first_seen, max(tally.last_seen)) / 1000.0) AS last_seen,
    coalesce(its.life, 'new') AS state, to_timestamp(its.marked_at / 1000.0) AS marked_at, its.who AS marked_by,
    its.details::json ->> CASE its.life WHEN 'fixed' THEN 'release' ELSE 'fixedIn' END AS fixed_in,
    to_timestamp((its.details::json #>> '{until,at}')::bigint / 1000.0) AS ignored_until,
    CASE WHEN its.life = 'regressed' THEN its.details::json ->> 'release' END AS regressed_in
  FROM redrive.failure_group AS its
  LEFT JOIN redrive.group_tally AS tally ON tally.failure_group = its.id
  GROUP BY its.id;
