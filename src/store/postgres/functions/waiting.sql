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
