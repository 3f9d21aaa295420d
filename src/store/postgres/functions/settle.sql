-- Lets lanes that start slowly after a hold run one more task for each attempt that began after the hold and ended.
-- `ends` is a JSON array of {lane, began}.
CREATE OR REPLACE FUNCTION redrive.ramp_up(ends json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE redrive.lane
  -- From 256 on, the slow start is over.
  SET ramp = CASE WHEN ramp + more.count < 256 THEN ramp + more.count END
  FROM (
    SELECT slow.id, count(*)::int AS count, min(run.began) AS began
    FROM json_to_recordset(ends) AS run (lane bigint, began bigint)
    JOIN redrive.lane AS slow ON slow.id = ANY (ARRAY[run.lane]) AND slow.ramp IS NOT NULL
      AND run.began >= slow.held_until AND NOT slow.ordered
    GROUP BY slow.id
  ) AS more
  -- Checked again under the lock: the lane may have been held once more.
  WHERE lane.id = ANY (ARRAY[more.id]) AND lane.ramp IS NOT NULL AND more.began >= lane.held_until;
END
$$;

-- Settles successes whose attempt is described by its time and worker alone: it is kept in the task's own row. Given
-- column by column, which is much cheaper to read than JSON. The first element of `numbers`, `began`, `took` and
-- `workers` also stands for those that are absent. Returns the positions, from 1, of those that were still in their
-- round, and the argument of `ramp_up`.
CREATE OR REPLACE FUNCTION redrive.succeed(
  ids text[], rounds int[], results text[], numbers int[], began bigint[], took bigint[], workers text[], now_ms bigint,
  OUT settled int[], OUT ends json
) LANGUAGE plpgsql AS $$
BEGIN
  WITH succeeded_task AS (
    UPDATE redrive.task
    SET state = redrive.state_succeeded(), round = task.round + 1, changed_at = now_ms, result = run.result,
      worker = coalesce(run.worker, workers[1]), ran_from = coalesce(run.began, succeed.began[1]),
      ran_to = coalesce(run.began, succeed.began[1]) + coalesce(run.took, succeed.took[1]),
      ran_attempt = coalesce(run.attempt, numbers[1]), entries = entries + 1, attempts = 0,
      deferrals = 0, losses = 0, undecided = false, cancel_requested = false, previous_delay = NULL, error_class = NULL,
      error_code = NULL, error_message = NULL
    FROM unnest(ids, rounds, results, numbers, succeed.began, succeed.took, workers)
      WITH ORDINALITY AS run (id, round, result, attempt, began, took, worker, n)
    WHERE task.id = ANY (ARRAY[run.id]) AND task.state = redrive.state_running() AND task.round = run.round
    RETURNING run.n, task.id, task.lane, task.ran_from
  ), tallied AS (
    INSERT INTO redrive.tally (lane, running, succeeded)
    SELECT lane, -count(*), count(*) FROM succeeded_task GROUP BY lane
  ), listed AS (
    INSERT INTO redrive.ended (state, at, tasks)
    SELECT redrive.state_succeeded(), now_ms, array_agg(id) FROM succeeded_task HAVING count(*) > 0
  )
  SELECT array_agg(n),
    CASE WHEN EXISTS (SELECT FROM redrive.lane WHERE ramp IS NOT NULL)
      THEN json_agg(json_build_object('lane', lane, 'began', ran_from)) END
  INTO settled, ends
  FROM succeeded_task;
END
$$;

-- Finds runs that have succeeded already within a transaction of their handler's own (see `complete`), given with their
-- numbers. Returns the numbers of those, once.
CREATE OR REPLACE FUNCTION redrive.acknowledge(ids text[], rounds int[], numbers int[]) RETURNS int[]
LANGUAGE plpgsql AS $$
DECLARE
  acknowledged int[];
  ends json;
BEGIN
  WITH completed_task AS (
    UPDATE redrive.task SET round = task.round + 1
    FROM unnest(ids, rounds, numbers) AS run (id, round, n)
    WHERE task.id = ANY (ARRAY[run.id]) AND task.state = redrive.state_succeeded() AND task.round = run.round
    RETURNING run.n, task.lane, task.ran_from
  )
  SELECT array_agg(n), json_agg(json_build_object('lane', lane, 'began', ran_from)) INTO acknowledged, ends
  FROM completed_task;
  IF ends IS NOT NULL THEN
    PERFORM redrive.ramp_up(ends);
  END IF;
  RETURN acknowledged;
END
$$;

-- Settles a batch: plain successes as `succeed` takes them, all others as `apply` does. `claims` and `counts` tell how
-- many of them belong to which claim. Returns JSON: {succeeded, applied, is_any_bounded}. The first two are the numbers
-- of those that took effect; `is_any_bounded` tells that there are lanes where the end of one task may let another
-- start.
CREATE OR REPLACE FUNCTION redrive.settle(
  ids text[], rounds int[], results text[], numbers int[], began bigint[], took bigint[], workers text[], others json,
  claims bigint[], counts int[], at bigint
) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  succeeded int[] := '{}';
  applied int[] := '{}';
  ends json;
BEGIN
  IF ids IS NOT NULL THEN
    SELECT coalesce(done.settled, '{}'), done.ends INTO succeeded, ends
    FROM redrive.succeed(ids, rounds, results, numbers, began, took, workers, now_ms) AS done;
    IF ends IS NOT NULL THEN
      PERFORM redrive.ramp_up(ends);
    END IF;
    IF cardinality(succeeded) < cardinality(ids) THEN
      succeeded := succeeded || redrive.acknowledge(ids, rounds, ARRAY(SELECT generate_subscripts(ids, 1)));
    END IF;
  END IF;
  IF others IS NOT NULL THEN
    applied := coalesce(redrive.apply(others, now_ms), '{}');
    IF cardinality(applied) < json_array_length(others) THEN
      SELECT applied || redrive.acknowledge(array_agg(id), array_agg(round), array_agg(n)) INTO applied
      FROM json_to_recordset(others) AS run (n int, id text, round int, type text) WHERE type = 'succeeded';
    END IF;
  END IF;
  -- Claims come last, so that nobody waits for a task while holding a lock on a claim. If some settlements were stale,
  -- the count stays too high.
  IF cardinality(succeeded) + cardinality(applied) = (SELECT sum(count) FROM unnest(counts) AS count) THEN
    DELETE FROM redrive.claim USING unnest(claims, counts) AS done (id, count)
    WHERE claim.id = ANY (ARRAY[done.id]) AND claim.unsettled = done.count;
    UPDATE redrive.claim SET unsettled = unsettled - done.count
    FROM unnest(claims, counts) AS done (id, count) WHERE claim.id = ANY (ARRAY[done.id]);
  END IF;
  RETURN json_build_object(
    'succeeded', succeeded,
    'applied', applied,
    'is_any_bounded', EXISTS (SELECT FROM redrive.lane WHERE ramp IS NOT NULL OR concurrency IS NOT NULL)
  )::text;
END
$$;
