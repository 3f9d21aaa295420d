-- What attempts have spent, as they said: see `Settlement.used`.

-- Counts what attempts have spent, given as a JSON array of {id, round, advances, used}. Those that do not hold their task any
-- more spend nothing: the task is locked, so that nobody settles the same attempt beside this call.
CREATE OR REPLACE FUNCTION redrive.spend(uses json, now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  WITH held_task AS (
    SELECT task.lane, use.used
    FROM json_to_recordset(uses) AS use (id text, round int, advances int, used json)
    JOIN redrive.task ON task.id = ANY (ARRAY[use.id]) AND task.state = redrive.state_running()
      AND task.round = use.round AND task.advances = use.advances
    ORDER BY task.id
    FOR NO KEY UPDATE OF task
  ), budgeted AS (
    INSERT INTO redrive.budget_cost (budget, at, bucket, amount, attempts)
    SELECT its.id, now_ms - now_ms % its.window_ms, part.bucket, sum(part.amount), sum(part.attempts)
    FROM held_task
    CROSS JOIN LATERAL (SELECT named.* FROM redrive.lane AS named WHERE named.id = held_task.lane OFFSET 0) AS own
    JOIN LATERAL (
      SELECT budget.id, (budget.settings::jsonb #>> '{cost,windowMs}')::bigint AS window_ms FROM redrive.budget
      WHERE budget.has_costs AND budget.kind = own.kind AND (budget.category IS NULL OR budget.category = own.category)
      OFFSET 0
    ) AS its ON true
    CROSS JOIN LATERAL (
      -- What is next to nothing could not be divided by the number of attempts.
      SELECT one.key, CASE WHEN one.value::float8 > 1e-30 THEN least(one.value::float8, 1e300) ELSE 0 END, 0
      FROM json_each_text(held_task.used) AS one
      UNION ALL SELECT NULL, 0, 1
    ) AS part (bucket, amount, attempts)
    GROUP BY its.id, its.window_ms, part.bucket
  )
  INSERT INTO redrive.cost_tally (kind, key, category, hour, bucket, amount)
  SELECT its.kind, its.key, its.category, redrive.hour_of(now_ms), part.key, sum(least(part.value::numeric, 1e300))
  FROM held_task
  CROSS JOIN LATERAL (SELECT named.* FROM redrive.lane AS named WHERE named.id = held_task.lane OFFSET 0) AS its
  CROSS JOIN LATERAL json_each_text(held_task.used) AS part
  GROUP BY its.kind, its.key, its.category, part.key;
END
$$;

-- Adds up the costs of the last hours, where there are many rows.
CREATE OR REPLACE FUNCTION redrive.fold_costs(now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  fresh constant bigint := redrive.hour_of(now_ms) - 3600000;
BEGIN
  IF (
    SELECT count(*) < 64 + 2 * count(DISTINCT (kind, key, category, hour, bucket)) FROM redrive.cost_tally WHERE hour >= fresh
  ) THEN
    RETURN;
  END IF;
  WITH folded_row AS (
    DELETE FROM redrive.cost_tally WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM redrive.cost_tally WHERE hour >= fresh FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
  )
  INSERT INTO redrive.cost_tally (kind, key, category, hour, bucket, amount)
  SELECT kind, key, category, hour, bucket, sum(amount) FROM folded_row GROUP BY kind, key, category, hour, bucket;
END
$$;
