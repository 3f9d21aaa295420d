-- Cancels those of these tasks that wait, off the record: something else becomes of them in the same transaction.
CREATE OR REPLACE FUNCTION redrive.withdraw(ids text[], at bigint) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  places tid[];
BEGIN
  ids := redrive.lock_tasks(ids);
  -- Keeps claims away until this is over. A task that one has taken is running, and left alone.
  places := redrive.lock_waiting(ids);
  PERFORM redrive.cancel(ARRAY(SELECT task FROM redrive.waiting WHERE ctid = ANY (places)), NULL, NULL, at);
END
$$;

-- Takes those of these tasks that ended in a state, and are locked, out of the lists of what has ended. Returns their ids.
CREATE OR REPLACE FUNCTION redrive.unlist_ended(of_state int, ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  found text[];
  times bigint[];
BEGIN
  SELECT array_agg(id ORDER BY id), array_agg(changed_at ORDER BY id) INTO found, times
  FROM redrive.task WHERE id = ANY (ids) AND state = of_state;
  IF found IS NOT NULL THEN
    PERFORM redrive.unlist(of_state, found, times);
  END IF;
  RETURN coalesce(found, '{}');
END
$$;

-- Gives tasks that are dead or cancelled the end that a person says, on record, as `afterEndByHand` of
-- src/store/rules/after-settlement.ts does: they have succeeded, or they are dead. `isToEndAs` says which may. Returns the ids
-- of those that it changed, as a JSON array.
CREATE OR REPLACE FUNCTION redrive.finish(ids text[], to_state int, new_result text, who text, why text, at bigint)
RETURNS text LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  is_done constant boolean := to_state = redrive.state_succeeded();
  of_state int;
  part text[];
BEGIN
  ids := ARRAY(
    SELECT id FROM redrive.task
    WHERE id = ANY (ids) AND NOT redrive.has_items(lane)
      AND (state = redrive.state_cancelled() OR state = redrive.state_dead() AND is_done)
    ORDER BY id FOR UPDATE);
  IF ids = '{}' THEN
    RETURN '[]';
  END IF;
  FOREACH of_state IN ARRAY ARRAY[redrive.state_dead(), redrive.state_cancelled()] LOOP
    part := redrive.unlist_ended(of_state, ids);
    PERFORM redrive.move_in_groups(part, of_state, to_state, now_ms);
  END LOOP;
  INSERT INTO redrive.ended (state, at, tasks, task_lanes)
  SELECT to_state, now_ms, ids, array_agg(DISTINCT lane) FROM redrive.task WHERE id = ANY (ids);

  WITH one AS MATERIALIZED (
    SELECT id, lane, entries, state FROM redrive.task WHERE id = ANY (ids)
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason, category)
    SELECT id, entries + 1, 0, now_ms, now_ms, who, CASE WHEN is_done THEN 'completed' ELSE 'failed' END, why,
      (SELECT its.category FROM redrive.lane AS its WHERE its.id = one.lane)
    FROM one
  ), tallied AS (
    INSERT INTO redrive.tally (lane, succeeded, dead, cancelled)
    SELECT lane, count(*) * is_done::int, count(*) * (NOT is_done)::int - count(*) FILTER (WHERE state = redrive.state_dead()),
      -count(*) FILTER (WHERE state = redrive.state_cancelled())
    FROM one GROUP BY lane
  )
  UPDATE redrive.task
  SET state = to_state, round = round + 1, changed_at = now_ms, entries = entries + 1, result = new_result,
    cancel_requested = false, undecided = false, operation = NULL, answered = false, value = CASE WHEN NOT is_done THEN value END,
    attempts = attempts * (NOT is_done)::int, deferrals = deferrals * (NOT is_done)::int, losses = losses * (NOT is_done)::int,
    previous_delay = CASE WHEN NOT is_done THEN previous_delay END, error_class = CASE WHEN NOT is_done THEN 'final' END,
    error_code = CASE WHEN NOT is_done THEN 'failed_by_hand' END, error_message = CASE WHEN NOT is_done THEN why END,
    reason = CASE WHEN NOT is_done THEN 'failed_by_hand' END,
    failure_group = CASE WHEN NOT is_done THEN failure_group END,
    failure_state = CASE WHEN NOT is_done AND failure_group IS NOT NULL THEN to_state END,
    failure_at = CASE WHEN NOT is_done AND failure_group IS NOT NULL THEN now_ms END,
    blocks = CASE WHEN NOT is_done THEN redrive.blocking_lane(lane) END
  WHERE id = ANY (ids);
  RETURN to_json(ids)::text;
END
$$;

-- Deletes tasks that have ended and are neither dead letters nor items, with their ledger and their steps. Returns their ids,
-- as a JSON array.
CREATE OR REPLACE FUNCTION redrive.remove(ids text[]) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  of_state int;
BEGIN
  ids := ARRAY(
    SELECT id FROM redrive.task
    WHERE id = ANY (ids) AND state IN (redrive.state_succeeded(), redrive.state_skipped(), redrive.state_cancelled())
      AND NOT redrive.has_items(lane)
    ORDER BY id FOR UPDATE);
  FOREACH of_state IN ARRAY ARRAY[redrive.state_succeeded(), redrive.state_skipped(), redrive.state_cancelled()] LOOP
    PERFORM redrive.forget_tasks(redrive.unlist_ended(of_state, ids), of_state);
  END LOOP;
  RETURN to_json(ids)::text;
END
$$;
