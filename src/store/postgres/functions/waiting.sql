-- The row of a task in `waiting`; none if it does not wait. A ready task is found by its place in its lane, any other by
-- its id: an index of all of them by id would make every task that is enqueued cost a quarter more.
CREATE OR REPLACE FUNCTION redrive.waiting_of(this redrive.task) RETURNS SETOF redrive.waiting LANGUAGE sql STABLE AS $$
  SELECT * FROM redrive.waiting
  WHERE state = redrive.state_ready() AND lane = this.lane AND priority = this.priority
    AND submitted_at = this.submitted_at AND task = this.id
  UNION ALL
  SELECT * FROM redrive.waiting WHERE state <> redrive.state_ready() AND task = this.id
$$;

-- Locks the rows in `waiting` of tasks that are locked, so that no claim takes them. Returns their places; a task that a
-- claim has taken has none.
CREATE OR REPLACE FUNCTION redrive.lock_waiting(ids text[]) RETURNS tid[] LANGUAGE plpgsql AS $$
BEGIN
  -- First those that are not ready, in a statement of their own: one that becomes ready meanwhile is found below. None
  -- goes the other way while its task is locked.
  PERFORM FROM redrive.waiting WHERE state <> redrive.state_ready() AND task = ANY (ids) ORDER BY task FOR UPDATE;
  RETURN ARRAY(
    SELECT waiting.ctid FROM redrive.waiting WHERE waiting.state <> redrive.state_ready() AND waiting.task = ANY (ids)
  ) || ARRAY(
    SELECT ready.ctid FROM redrive.task JOIN redrive.waiting AS ready ON ready.state = redrive.state_ready()
      AND ready.lane = task.lane AND ready.priority = task.priority AND ready.submitted_at = task.submitted_at
      AND ready.task = task.id
    WHERE task.id = ANY (ids) AND task.state = redrive.state_running()
    ORDER BY task.id FOR UPDATE OF ready
  );
END
$$;

-- Those tasks that wait or run, as a JSON array of {id, isRunning, hasBegun}.
CREATE OR REPLACE FUNCTION redrive.unfinished_tasks(ids text[]) RETURNS json LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(json_build_object(
      'id', this.id, 'isRunning', queued.task IS NULL,
      'hasBegun', queued.task IS NULL OR this.attempts > 0 OR this.deferrals > 0 OR this.losses > 0
    )), '[]')
    FROM redrive.task AS this LEFT JOIN LATERAL (SELECT * FROM redrive.waiting_of(this) OFFSET 0) AS queued ON true
    WHERE this.id = ANY (ids) AND this.state = redrive.state_running()
  );
END
$$;
