-- Deletes up to `up_to` items of a run, with their ledger. Returns how many.
CREATE OR REPLACE FUNCTION redrive.forget_items(of_run text, up_to int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  ids text[];
  places tid[];
BEGIN
  -- Tasks before their rows in `waiting`, as everybody locks them. Somebody may have redriven one just before.
  ids := ARRAY(
    SELECT id FROM redrive.task
    WHERE id > of_run || ':' AND id < of_run || ';' AND redrive.has_items(lane)
    ORDER BY id LIMIT up_to FOR UPDATE);
  places := redrive.lock_waiting(ids);
  WITH deleted_task AS (
    DELETE FROM redrive.task WHERE id = ANY (ids) RETURNING id, lane, state, failure_group, failure_state
  ), deleted_entry AS (
    DELETE FROM redrive.ledger WHERE task = ANY (ids)
  ), deleted_step AS (
    DELETE FROM redrive.step WHERE task = ANY (ids)
  ), dequeued AS (
    DELETE FROM redrive.waiting WHERE ctid = ANY (places)
  ), deleted_output AS (
    DELETE FROM redrive.run_output WHERE run = of_run AND task = ANY (ids)
  ), left_group AS (
    INSERT INTO redrive.group_tally (failure_group, hour, retrying, dead)
    SELECT failure_group, 0, -count(*) FILTER (WHERE failure_state = redrive.state_running()),
      -count(*) FILTER (WHERE failure_state = redrive.state_dead())
    FROM deleted_task WHERE failure_state IS NOT NULL GROUP BY failure_group
  )
  INSERT INTO redrive.tally (lane, succeeded, skipped, dead, cancelled)
  SELECT lane,
    -count(*) FILTER (WHERE state = redrive.state_succeeded()),
    -count(*) FILTER (WHERE state = redrive.state_skipped()),
    -count(*) FILTER (WHERE state = redrive.state_dead()),
    -count(*) FILTER (WHERE state = redrive.state_cancelled())
  FROM deleted_task GROUP BY lane;
  -- There are no more of these than items, so they are gone once the items are.
  DELETE FROM redrive.run_item WHERE run = of_run AND position = ANY (ARRAY(
    SELECT position FROM redrive.run_item WHERE run = of_run ORDER BY position LIMIT up_to));
  RETURN cardinality(ids);
END
$$;

-- Deletes a run whose items are gone, with its lanes and the rules for them.
CREATE OR REPLACE FUNCTION redrive.forget_run(of_run text, of_kind text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  lanes bigint[] := ARRAY(
    SELECT id FROM redrive.lane WHERE redrive.has_items(id) AND key = of_run AND kind = of_kind);
BEGIN
  PERFORM redrive.lock_lane_rules(of_kind);
  DELETE FROM redrive.ended WHERE lane = ANY (lanes);
  DELETE FROM redrive.tally WHERE lane = ANY (lanes);
  DELETE FROM redrive.lane WHERE id = ANY (lanes);
  DELETE FROM redrive.pause_rule WHERE kind = of_kind AND key = of_run;
  DELETE FROM redrive.limit_rule WHERE kind = of_kind AND key = of_run;
  DELETE FROM redrive.run WHERE id = of_run;
END
$$;

-- Deletes runs that have been over for long enough, with all that belongs to them: up to `up_to` items and runs. A run that
-- takes several calls is hidden by the first. Returns how many it deleted.
CREATE OR REPLACE FUNCTION redrive.prune_runs(ended_ms bigint, dead_ms bigint, up_to int, at bigint) RETURNS int
LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  gone int := 0;
  old redrive.run;
BEGIN
  WHILE gone < up_to LOOP
    SELECT * INTO old FROM redrive.run WHERE run.forgotten LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      SELECT * INTO old FROM redrive.run
      WHERE run.ended_at <= now_ms - ended_ms AND (run.dead = 0 OR run.ended_at <= now_ms - dead_ms)
      ORDER BY run.ended_at LIMIT 1 FOR UPDATE SKIP LOCKED;
      EXIT WHEN NOT FOUND;
      UPDATE redrive.run SET forgotten = true WHERE run.id = old.id;
    END IF;
    gone := gone + redrive.forget_items(old.id, up_to - gone);
    EXIT WHEN gone >= up_to;
    PERFORM redrive.forget_run(old.id, 'pipeline:' || old.pipeline);
    gone := gone + 1;
  END LOOP;
  RETURN gone;
END
$$;
