-- The number of ready tasks of a lane that come before one, counted up to `most`.
CREATE OR REPLACE FUNCTION redrive.ready_before(
  of_lane bigint, of_priority float8, of_submitted bigint, of_task text, most int
) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  RETURN least(most, (
    SELECT count(*) FROM (
      SELECT FROM redrive.waiting
      WHERE state = redrive.state_ready() AND lane = of_lane AND priority > of_priority LIMIT most
    ) AS higher
  ) + (
    SELECT count(*) FROM (
      SELECT FROM redrive.waiting
      WHERE state = redrive.state_ready() AND lane = of_lane AND priority = of_priority
        AND (submitted_at, task) < (of_submitted, of_task) LIMIT most
    ) AS earlier
  ));
END
$$;

-- Where a task stands: in the queue of its lane, or with a worker. Returns JSON: {now, lane, is_undecided,
-- is_to_be_cancelled, before, worker, retry_budget, behind_retry, blocked_by, ramp, rate_opens_at, shared}; NULL if there is no such task.
CREATE OR REPLACE FUNCTION redrive.standing_of(of_id text, most int, at bigint) RETURNS text LANGUAGE plpgsql STABLE
/* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  this redrive.task;
  queued redrive.waiting;
  its redrive.lane;
BEGIN
  SELECT * INTO this FROM redrive.task WHERE id = of_id;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  SELECT * INTO queued FROM redrive.waiting_of(this);
  SELECT * INTO its FROM redrive.lane WHERE id = this.lane;
  RETURN json_build_object(
    'now', now_ms, 'lane', its.id, 'is_undecided', this.undecided, 'is_to_be_cancelled', this.cancel_requested,
    'before', CASE WHEN queued.next_at <= now_ms
      THEN redrive.ready_before(its.id, queued.priority, queued.submitted_at, of_id, most) END,
    'worker', CASE WHEN queued.task IS NULL AND this.state = redrive.state_running() THEN (
      SELECT json_build_object('name', claim.worker, 'until', (
        SELECT worker.until FROM redrive.worker WHERE worker.id = claim.worker))
      FROM redrive.claim WHERE of_id = ANY (claim.tasks) ORDER BY claim.at DESC LIMIT 1
    ) END,
    'retry_budget', CASE WHEN queued.state = redrive.state_budgeted() THEN (
      SELECT json_build_object('kind', known.kind, 'category', known.category)
      FROM redrive.budget AS known WHERE known.id = queued.budget
    ) END,
    'behind_retry', CASE WHEN its.ordered THEN (
      SELECT head.task FROM redrive.waiting AS head
      WHERE head.state = redrive.state_budgeted() AND head.lane = its.id AND head.task <> of_id LIMIT 1
    ) END,
    'blocked_by', CASE WHEN its.blocking AND queued.task IS NOT NULL
      THEN redrive.letter_before(its.id, queued.priority, queued.submitted_at, of_id) END,
    'ramp', its.ramp,
    'rate_opens_at', ceil(its.refilled_at + (1 - its.tokens) * 1000 / its.per_second)::bigint,
    'shared', (
      SELECT json_build_object(
        -- Counted only where it matters: a limit may have the idle lanes of many runs.
        'running', (known.limits::jsonb -> 'concurrency')::bigint - redrive.shared_room(known),
        'opens_at', redrive.shared_opens_at(known.limits::jsonb, known.state::jsonb, this.cost::jsonb, now_ms))
      FROM redrive.shared_limit AS known WHERE known.id = its.shared
    )
  )::text;
END
$$;
