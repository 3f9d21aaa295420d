-- Gives dead tasks up for good, on record: they are cancelled, and keep their error (`afterDiscard` of
-- src/store/rules/after-settlement.ts). Items of runs are left alone, since their run counts its dead. `of_operation` and
-- `died_until` as with `redrive`. Returns the ids of the tasks that it changed, as a JSON array.
CREATE OR REPLACE FUNCTION redrive.discard(
  ids text[], who text, why text, of_operation text, died_until bigint, at bigint
) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  times bigint[];
BEGIN
  ids := ARRAY(
    SELECT id FROM redrive.task
    WHERE id = ANY (ids) AND state = redrive.state_dead() AND NOT redrive.has_items(lane)
      AND (died_until IS NULL OR changed_at <= died_until)
      AND (of_operation IS NULL OR operation IS DISTINCT FROM of_operation)
    ORDER BY id FOR UPDATE);
  IF ids = '{}' THEN
    RETURN '[]';
  END IF;
  SELECT array_agg(changed_at ORDER BY id) INTO times FROM redrive.task WHERE id = ANY (ids);
  PERFORM redrive.unlist(redrive.state_dead(), ids, times);
  PERFORM redrive.move_in_groups(ids, redrive.state_dead(), redrive.state_cancelled(), now_ms);
  INSERT INTO redrive.ended (state, at, tasks, task_lanes)
  SELECT redrive.state_cancelled(), now_ms, ids, array_agg(DISTINCT lane) FROM redrive.task WHERE id = ANY (ids);

  WITH dead_task AS MATERIALIZED (
    SELECT id, lane, entries, redrive.before_of(task) AS before FROM redrive.task WHERE id = ANY (ids)
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason, category, before)
    SELECT id, entries + 1, 0, now_ms, now_ms, who, 'discarded', why,
      (SELECT its.category FROM redrive.lane AS its WHERE its.id = dead_task.lane), before
    FROM dead_task
  ), tallied AS (
    INSERT INTO redrive.tally (lane, dead, cancelled) SELECT lane, -count(*), count(*) FROM dead_task GROUP BY lane
  )
  UPDATE redrive.task
  SET state = redrive.state_cancelled(), round = round + 1, changed_at = now_ms, entries = entries + 1, reason = why,
    operation = of_operation, answered = false,
    failure_state = CASE WHEN failure_group IS NOT NULL THEN redrive.state_cancelled() END,
    failure_at = CASE WHEN failure_group IS NOT NULL THEN now_ms END
  WHERE id = ANY (ids);
  RETURN to_json(ids)::text;
END
$$;
