-- Takes tasks that ended in a state, each at its time, and are locked, out of the lists of what has ended. The lists are
-- locked first, in the order of their times, and found by time whatever the planner thinks of their number.
CREATE OR REPLACE FUNCTION redrive.unlist(of_state int, ids text[], times bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  places tid[] := ARRAY(
    SELECT list.ctid FROM (SELECT DISTINCT at FROM unnest(times) AS at ORDER BY at) AS one
    CROSS JOIN LATERAL (
      SELECT ended.ctid FROM redrive.ended WHERE ended.state = of_state AND ended.at = one.at OFFSET 0 FOR UPDATE
    ) AS list);
BEGIN
  -- A subquery is hashed, so long lists are no trouble.
  UPDATE redrive.ended SET tasks = ARRAY(SELECT id FROM unnest(tasks) AS id WHERE id NOT IN (SELECT unnest(ids)))
  WHERE ctid = ANY (places) AND EXISTS (SELECT FROM unnest(tasks) AS id WHERE id NOT IN (SELECT unnest(ids)));
  -- Those that were changed have another place by now.
  DELETE FROM redrive.ended WHERE ctid = ANY (places);
END
$$;

-- The part of a dead task that a redrive clears, as JSON. Put together as text, which is much cheaper than stripping the
-- NULLs of an object: `concat` leaves them out.
CREATE OR REPLACE FUNCTION redrive.before_of(of_task redrive.task) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT concat('{"attempts":', of_task.attempts, ',"deferrals":', of_task.deferrals,
    ',"startedAt":', of_task.started_at, ',"changedAt":', of_task.changed_at,
    ',"previousDelayMs":' || of_task.previous_delay, ',"errorClass":' || to_json(of_task.error_class),
    ',"errorCode":' || to_json(of_task.error_code), ',"errorMessage":' || to_json(of_task.error_message),
    ',"reason":' || to_json(of_task.reason), '}')
$$;

-- Gives dead tasks fresh attempts, on record, as `afterRedrive` of src/store/rules/after-settlement.ts does; only those that
-- died by a time, if one is given. They carry the operation, if there is one, and it moves each of them once, though the
-- clock may be set back. Tasks are read without a lock, which would be a write of its own, and left alone if they have
-- changed since. Returns the ids and times of death of those that it moved, and how many were dead.
CREATE OR REPLACE FUNCTION redrive.move_dead(
  ids text[], who text, why text, of_operation text, died_until bigint, now_ms bigint,
  OUT moved text[], OUT times bigint[], OUT known int
) LANGUAGE plpgsql AS $$
BEGIN
  WITH dead_task AS MATERIALIZED (
    SELECT id, round, entries, changed_at, redrive.before_of(task) AS before FROM redrive.task
    WHERE id = ANY (ids) AND state = redrive.state_dead() AND (died_until IS NULL OR changed_at <= died_until)
      AND (of_operation IS NULL OR operation IS DISTINCT FROM of_operation)
    ORDER BY id
  ), moved_task AS (
    UPDATE redrive.task
    SET state = redrive.state_running(), round = task.round + 1, started_at = now_ms, changed_at = now_ms,
      entries = task.entries + 1, attempts = 0, deferrals = 0, undecided = false, previous_delay = NULL,
      error_class = NULL, error_code = NULL, error_message = NULL, reason = NULL, operation = of_operation,
      answered = false,
      failure_state = CASE WHEN failure_group IS NOT NULL THEN redrive.state_running() END,
      failure_at = CASE WHEN failure_group IS NOT NULL THEN now_ms END
    FROM dead_task
    WHERE task.id = ANY (ARRAY[dead_task.id]) AND task.round = dead_task.round AND task.entries = dead_task.entries
    RETURNING task.id, task.lane, task.entries, task.losses, task.priority, task.submitted_at, task.failure_group,
      dead_task.changed_at AS died_at, dead_task.before
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason, category, before)
    SELECT id, entries, 0, now_ms, now_ms, who, 'redriven', why,
      (SELECT its.category FROM redrive.lane AS its WHERE its.id = moved_task.lane), before
    FROM moved_task
  ), tallied AS (
    INSERT INTO redrive.tally (lane, dead, waiting) SELECT lane, -count(*), count(*) FROM moved_task GROUP BY lane
  ), counted AS (
    INSERT INTO redrive.group_tally (failure_group, hour, retrying, dead)
    SELECT failure_group, redrive.hour_of(now_ms), count(*), -count(*) FROM moved_task WHERE failure_group IS NOT NULL
    GROUP BY failure_group
  ), queued AS (
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at, alone)
    SELECT id, lane, redrive.waiting_state(true, redrive.runs_alone(losses)), priority, submitted_at, now_ms,
      redrive.runs_alone(losses)
    FROM moved_task
  )
  SELECT array_agg(id), array_agg(died_at), (SELECT count(*) FROM dead_task) INTO moved, times, known FROM moved_task;
END
$$;

-- Gives dead tasks fresh attempts (see `move_dead`). Returns the ids of those that it moved, as a JSON array.
CREATE OR REPLACE FUNCTION redrive.redrive(
  ids text[], who text, why text, of_operation text, died_until bigint, at bigint
) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  part record;
  moved text[] := '{}';
BEGIN
  LOOP
    part := redrive.move_dead(ids, who, why, of_operation, died_until, now_ms);
    EXIT WHEN part.known = 0;
    PERFORM redrive.unlist(redrive.state_dead(), part.moved, part.times);
    moved := moved || part.moved;
    -- Some have changed in the meantime, and may be dead all the same.
    EXIT WHEN cardinality(part.moved) = part.known;
  END LOOP;
  RETURN to_json(moved)::text;
END
$$;
