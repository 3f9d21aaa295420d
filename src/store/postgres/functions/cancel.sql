-- Ends waiting tasks and marks running ones, each on record if `who` asked for it. Returns the ids of those that it has ended
-- or marked, as a JSON array.
CREATE OR REPLACE FUNCTION redrive.cancel(ids text[], who text, why text, at bigint) RETURNS text LANGUAGE plpgsql
/* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  places tid[];
  cancelled text;
  grouped text[];
BEGIN
  -- Lock the tasks first, so that settlements under way are on record before `waiting` is read.
  ids := redrive.lock_tasks(ids);
  ids := ARRAY(SELECT id FROM redrive.task WHERE id = ANY (ids) AND state = redrive.state_running() AND NOT cancel_requested);
  places := redrive.lock_waiting(ids);
  WITH dequeued AS (
    DELETE FROM redrive.waiting WHERE ctid = ANY (places) RETURNING task, lane
  ), tallied AS (
    INSERT INTO redrive.tally (lane, waiting, cancelled) SELECT lane, -count(*), count(*) FROM dequeued GROUP BY lane
  ), listed AS (
    INSERT INTO redrive.ended (state, at, lane, tasks, task_lanes)
    SELECT redrive.state_cancelled(), now_ms, redrive.item_lane(lane), array_agg(task), array_agg(DISTINCT lane)
    FROM dequeued GROUP BY redrive.item_lane(lane)
  ), written_task AS (
    UPDATE redrive.task
    SET state = CASE WHEN was_waiting THEN redrive.state_cancelled() ELSE redrive.state_running() END,
      round = CASE WHEN was_waiting THEN round + 1 ELSE round END,
      changed_at = CASE WHEN was_waiting THEN now_ms ELSE changed_at END,
      entries = entries + (who IS NOT NULL)::int,
      failure_state = CASE WHEN was_waiting AND failure_group IS NOT NULL THEN redrive.state_cancelled() ELSE failure_state END,
      failure_at = CASE WHEN was_waiting AND failure_group IS NOT NULL THEN now_ms ELSE failure_at END,
      -- Of a task that has ended, it tells that nobody had it (see `advanced_before`).
      cancel_requested = true
    FROM (SELECT id, id IN (SELECT dequeued.task FROM dequeued) AS was_waiting FROM unnest(ids) AS id) AS living
    WHERE task.id = ANY (ARRAY[living.id])
    RETURNING task.id, living.was_waiting, task.lane, task.entries, task.operation, task.answered, task.failure_state
  ), freed AS (
    -- The next task of an ordered lane need not wait for its head any more, unless a rate limit asked for that.
    UPDATE redrive.lane SET held_until = 0, held_by = NULL FROM written_task
    WHERE written_task.was_waiting AND lane.id = ANY (ARRAY[written_task.lane]) AND lane.ordered
      AND lane.held_by = written_task.id AND NOT EXISTS (
        SELECT FROM redrive.ledger AS last
        WHERE last.task = written_task.id AND last.sequence = written_task.entries - (who IS NOT NULL)::int
          AND last.outcome = 'deferred')
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason, category)
    SELECT id, entries, 0, now_ms, now_ms, who, CASE WHEN was_waiting THEN 'cancelled' ELSE 'cancel_requested' END, why,
      (SELECT its.category FROM redrive.lane AS its WHERE its.id = written_task.lane)
    FROM written_task WHERE who IS NOT NULL
  ), noted AS (
    INSERT INTO redrive.operation_count (operation, unanswered, cancelled)
    SELECT operation, count(*) FILTER (WHERE NOT answered), count(*) FROM written_task
    WHERE was_waiting AND operation IS NOT NULL GROUP BY operation
  )
  SELECT coalesce(json_agg(id), '[]')::text,
    array_agg(id) FILTER (WHERE failure_state = redrive.state_cancelled())
  INTO cancelled, grouped FROM written_task;
  PERFORM redrive.move_in_groups(grouped, redrive.state_running(), redrive.state_cancelled(), now_ms);
  PERFORM redrive.release_keys(ARRAY(
    SELECT id FROM redrive.task WHERE id = ANY (ids) AND state > redrive.state_running() AND unique_key IS NOT NULL), now_ms);
  RETURN cancelled;
END
$$;
