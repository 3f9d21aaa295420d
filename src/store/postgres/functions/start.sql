-- Starts tasks whose rows in `waiting` are locked. Returns NULL if there are none, and else returns them in the order given,
-- column by column, as a JSON object of arrays, which is much cheaper to build than an array of objects. `history` is NULL
-- for a task that was never tried.
CREATE OR REPLACE FUNCTION redrive.start(places tid[], by_worker text, now_ms bigint) RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
  answer json;
BEGIN
  IF places IS NULL THEN
    RETURN NULL;
  END IF;
  WITH dequeued AS (
    DELETE FROM redrive.waiting USING unnest(places) WITH ORDINALITY AS place (ctid, number)
    WHERE waiting.ctid = place.ctid
    RETURNING place.number, waiting.task
  ), started_task AS MATERIALIZED (
    SELECT task.id, task.lane, task.round, task.priority, task.submitted_at, task.started_at, task.payload,
      task.value, task.advances, task.traceparent, task.policy,
      CASE WHEN task.entries > 0 OR task.previous_delay IS NOT NULL OR task.has_steps THEN json_build_array(
        task.attempts, task.deferrals, task.losses, task.undecided, task.previous_delay, task.error_class,
        task.error_code, task.error_message, task.failure_group, task.has_steps) END AS history
    FROM dequeued JOIN redrive.task ON task.id = ANY (ARRAY[dequeued.task])
    ORDER BY dequeued.number
  ), new_claim AS (
    INSERT INTO redrive.claim (worker, at, tasks, rounds, unsettled)
    SELECT by_worker, now_ms, array_agg(id), array_agg(round), count(*) FROM started_task HAVING count(*) > 0
    RETURNING id
  ), lane_start AS MATERIALIZED (
    SELECT lane, count(*) AS count, max(submitted_at) AS last_place FROM started_task GROUP BY lane
  ), tallied AS (
    INSERT INTO redrive.tally (lane, waiting, running) SELECT lane, -count, count FROM lane_start
  ), charged_lane AS (
    UPDATE redrive.lane AS its
    SET tokens = CASE WHEN its.per_second IS NULL THEN its.tokens
        ELSE redrive.tokens(its, now_ms) - lane_start.count END,
      refilled_at = now_ms, last_place = CASE WHEN its.ordered THEN lane_start.last_place END
    FROM lane_start WHERE its.id = ANY (ARRAY[lane_start.lane]) AND (its.per_second IS NOT NULL OR its.ordered)
  )
  SELECT json_build_object(
    'claim', (SELECT id FROM new_claim),
    'lanes', (
      SELECT json_agg(json_build_array(its.id, its.kind, its.category, its.key))
      FROM lane_start JOIN redrive.lane AS its ON its.id = ANY (ARRAY[lane_start.lane])
    ),
    'lane', array_agg(lane), 'id', array_agg(id), 'round', array_agg(round), 'priority', array_agg(priority),
    'submitted_at', array_agg(submitted_at), 'started_at', array_agg(started_at), 'payload', array_agg(payload),
    'value', CASE WHEN count(value) > 0 THEN array_agg(value) END,
    'traceparent', CASE WHEN count(traceparent) > 0 THEN array_agg(traceparent) END,
    'policy', CASE WHEN count(policy) > 0 THEN array_agg(policy) END,
    'advances', CASE WHEN max(advances) > 0 THEN array_agg(advances) END, 'history', array_agg(history)
  )
  INTO answer
  FROM started_task HAVING count(*) > 0;
  RETURN answer;
END
$$;
