-- Takes dead tasks, which are locked, out of the lists of what has ended.
CREATE OR REPLACE FUNCTION redrive.unlist_dead(ids text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  died_at bigint;
BEGIN
  FOR died_at IN SELECT DISTINCT changed_at FROM redrive.task WHERE id = ANY (ids) ORDER BY changed_at LOOP
    UPDATE redrive.ended SET tasks = ARRAY(SELECT id FROM unnest(tasks) AS id WHERE id <> ALL (ids))
    WHERE ended.state = redrive.state_dead() AND ended.at = died_at;
    DELETE FROM redrive.ended WHERE ended.state = redrive.state_dead() AND ended.at = died_at AND tasks = '{}';
  END LOOP;
END
$$;

-- Gives dead tasks fresh attempts, on record. Returns the ids of the tasks that it moved, as a JSON array.
CREATE OR REPLACE FUNCTION redrive.redrive(ids text[], who text, why text, at bigint) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
BEGIN
  ids := ARRAY(SELECT id FROM redrive.task WHERE id = ANY (ids) AND state = redrive.state_dead() ORDER BY id FOR UPDATE);
  PERFORM redrive.unlist_dead(ids);

  WITH dead_task AS MATERIALIZED (
    SELECT id, lane, entries, losses, priority, submitted_at FROM redrive.task WHERE id = ANY (ids)
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason, category)
    SELECT id, entries + 1, 0, now_ms, now_ms, who, 'redriven', why,
      (SELECT its.category FROM redrive.lane AS its WHERE its.id = dead_task.lane)
    FROM dead_task
  ), tallied AS (
    INSERT INTO redrive.tally (lane, dead, waiting) SELECT lane, -count(*), count(*) FROM dead_task GROUP BY lane
  ), queued AS (
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at, alone)
    SELECT id, lane, redrive.waiting_state(true, redrive.runs_alone(losses)), priority, submitted_at, now_ms,
      redrive.runs_alone(losses)
    FROM dead_task
  )
  UPDATE redrive.task
  SET state = redrive.state_running(), round = round + 1, started_at = now_ms, changed_at = now_ms,
    entries = entries + 1, attempts = 0, deferrals = 0, undecided = false, previous_delay = NULL, error_class = NULL,
    error_code = NULL, error_message = NULL, reason = NULL
  WHERE id = ANY (ids);
  RETURN to_json(ids)::text;
END
$$;
