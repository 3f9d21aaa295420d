-- Whether the last row of a task's ledger is a deferral: then a rate limit may hold its lane.
CREATE OR REPLACE FUNCTION redrive.is_deferred(of_task text, of_entries int) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM redrive.ledger AS last
    WHERE last.task = of_task AND last.sequence = of_entries AND last.outcome = 'deferred');
END
$$;

-- Where tasks that wait stand after a change, as `arranged` of src/store/rules/arrange.ts says; not those that stay as they are.
CREATE OR REPLACE FUNCTION redrive.new_places(
  ids text[], due bigint[], priorities float8[], starts bigint[], now_ms bigint
) RETURNS SETOF redrive.new_place LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY
  WITH wanted AS MATERIALIZED (
    SELECT task.id, task.lane, task.entries, queued.place, its.ordered, queued.next_at AS was_due,
      task.priority AS was_priority, task.started_at AS was_start, coalesce(given.due, queued.next_at) AS next_at,
      coalesce(given.priority, task.priority) AS priority,
      CASE
        WHEN given.start IS NOT NULL THEN given.start
        WHEN given.due IS NULL OR task.attempts > 0 OR task.deferrals > 0 OR task.losses > 0 OR task.value IS NOT NULL
          THEN task.started_at
        ELSE greatest(now_ms, given.due)
      END AS start
    FROM unnest(ids, due, priorities, starts) AS given (id, due, priority, start)
    JOIN redrive.task ON task.id = ANY (ARRAY[given.id]) AND task.state = redrive.state_running()
    CROSS JOIN LATERAL (SELECT lane.ordered FROM redrive.lane WHERE lane.id = task.lane OFFSET 0) AS its
    CROSS JOIN LATERAL (
      SELECT ready.ctid AS place, ready.next_at FROM redrive.waiting AS ready
      WHERE ready.state = redrive.state_ready() AND ready.lane = task.lane AND ready.priority = task.priority
        AND ready.submitted_at = task.submitted_at AND ready.task = task.id
      UNION ALL
      SELECT other.ctid, other.next_at FROM redrive.waiting AS other
      WHERE other.state <> redrive.state_ready() AND other.task = task.id
    ) AS queued
  )
  SELECT wanted.* FROM wanted
  WHERE NOT (wanted.priority = was_priority
      AND (wanted.next_at = was_due OR greatest(wanted.next_at, was_due) <= now_ms))
    AND NOT (ordered AND (wanted.priority <> was_priority OR wanted.next_at > now_ms
      OR redrive.is_deferred(wanted.id, wanted.entries)))
    -- It would run beside its twin.
    AND was_due <> redrive.queued_until();
END
$$;

-- Changes when tasks that wait are due, and their priorities, on record. Each list has a place for each task; NULL leaves it as
-- it is. `act` is the outcome of the rows on the ledger. Returns the ids of those that it changed, as a JSON array.
CREATE OR REPLACE FUNCTION redrive.arrange(
  ids text[], due bigint[], priorities float8[], starts bigint[], act text, who text, why text, of_operation text,
  at bigint
) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  changed text;
BEGIN
  -- Tasks first, as everybody locks them. No claim takes one of them until this is over.
  PERFORM redrive.lock_waiting(redrive.lock_tasks(ids));
  WITH new AS MATERIALIZED (
    SELECT * FROM redrive.new_places(ids, due, priorities, starts, now_ms)
  ), queued AS (
    UPDATE redrive.waiting
    SET priority = new.priority, next_at = new.next_at,
      state = CASE waiting.state WHEN redrive.state_budgeted() THEN waiting.state
        ELSE redrive.waiting_state(new.next_at <= now_ms, waiting.alone) END
    -- Found by their places: with ANY, each would take a scan of the table.
    FROM new WHERE waiting.ctid = new.place
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason, category, before)
    SELECT id, entries + 1, 0, now_ms, now_ms, who, act, why,
      (SELECT its.category FROM redrive.lane AS its WHERE its.id = new.lane),
      CASE WHEN act <> 'undone' THEN concat('{"nextAttemptAt":', was_due, ',"priority":', to_json(was_priority),
        ',"startedAt":', was_start, ',"operation":' || to_json(of_operation), '}') END
    FROM new
  ), freed AS (
    UPDATE redrive.lane SET held_until = 0, held_by = NULL FROM new
    WHERE new.ordered AND lane.id = ANY (ARRAY[new.lane]) AND lane.held_by = new.id
  ), written AS (
    UPDATE redrive.task SET priority = new.priority, started_at = new.start, entries = task.entries + 1
    FROM new WHERE task.id = ANY (ARRAY[new.id])
  )
  SELECT coalesce(json_agg(id), '[]')::text INTO changed FROM new;
  RETURN changed;
END
$$;
