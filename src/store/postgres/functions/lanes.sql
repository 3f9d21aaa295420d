-- The tokens of a lane with a rate: how many of its tasks may start. At most a second's worth is saved up.
CREATE OR REPLACE FUNCTION redrive.tokens(this redrive.lane, now_ms bigint) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
  SELECT least(
    greatest(1, this.per_second),
    this.tokens + greatest(0, now_ms - this.refilled_at) * this.per_second / 1000
  )
$$;

-- The allowance of a lane without limits. No other lane has as much.
CREATE OR REPLACE FUNCTION redrive.unlimited() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 1000000';

-- How many tasks of a lane may start now, while this many run. Only where `running` occurs once, it may be a subquery and the
-- function is still inlined.
CREATE OR REPLACE FUNCTION redrive.allowance_beside(running bigint, this redrive.lane, now_ms bigint) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN this.paused OR this.held_until > now_ms THEN 0
    WHEN coalesce(this.concurrency, this.ramp, this.per_second) IS NULL THEN redrive.unlimited()
    ELSE greatest(0, least(least(this.concurrency, this.ramp) - running,
      CASE WHEN this.per_second IS NOT NULL THEN floor(redrive.tokens(this, now_ms) + 1e-9) END,
      redrive.unlimited() - 1))::int END
$$;

-- How many tasks of a lane may start now.
CREATE OR REPLACE FUNCTION redrive.allowance(this redrive.lane, now_ms bigint) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  RETURN redrive.allowance_beside(CASE WHEN this.concurrency IS NOT NULL OR this.ramp IS NOT NULL
    THEN (SELECT coalesce(sum(tally.running), 0)::bigint FROM redrive.tally WHERE tally.lane = this.id) END, this, now_ms);
END
$$;

-- Whether a lane has tasks that could start at once.
CREATE OR REPLACE FUNCTION redrive.has_ready(of_lane bigint) RETURNS boolean LANGUAGE sql AS $$
  SELECT EXISTS (SELECT FROM redrive.waiting WHERE state = redrive.state_ready() AND lane = of_lane)
      OR EXISTS (SELECT FROM redrive.waiting WHERE state = redrive.state_alone() AND lane = of_lane)
$$;

-- The first dead letter that blocks a lane, of those before a place; NULL for the priority: before any.
CREATE OR REPLACE FUNCTION redrive.letter_before(
  of_lane bigint, of_priority float8, of_submitted bigint, of_task text
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    SELECT letter.id FROM redrive.task AS letter
    WHERE letter.blocks = of_lane AND letter.state = redrive.state_dead()
      AND (of_priority IS NULL OR letter.priority > of_priority
        OR letter.priority = of_priority AND (letter.submitted_at, letter.id) < (of_submitted, of_task))
      AND (SELECT its.blocking FROM redrive.lane AS its WHERE its.id = of_lane)
    ORDER BY letter.priority DESC, letter.submitted_at, letter.id LIMIT 1
  );
END
$$;

-- Whether a dead letter comes before the first ready task of a lane.
CREATE OR REPLACE FUNCTION redrive.is_behind_letter(of_lane bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM (
      SELECT waiting.priority, waiting.submitted_at, waiting.task FROM redrive.waiting
      WHERE waiting.state = redrive.state_ready() AND waiting.lane = of_lane
      ORDER BY waiting.priority DESC, waiting.submitted_at, waiting.task LIMIT 1
    ) AS head
    WHERE redrive.letter_before(of_lane, head.priority, head.submitted_at, head.task) IS NOT NULL);
END
$$;

-- Whether a dead letter comes before all tasks of a lane that could start.
CREATE OR REPLACE FUNCTION redrive.is_stopped(of_lane bigint, now_ms bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN redrive.letter_before(of_lane, NULL, NULL, NULL) IS NOT NULL
    AND (redrive.is_behind_letter(of_lane) OR NOT EXISTS (
      SELECT FROM redrive.waiting WHERE waiting.state = redrive.state_ready() AND waiting.lane = of_lane))
    AND NOT EXISTS (
      SELECT FROM redrive.waiting AS lone
      WHERE lone.state = redrive.state_alone() AND lone.lane = of_lane
        AND redrive.letter_before(of_lane, lone.priority, lone.submitted_at, lone.task) IS NULL)
    AND NOT EXISTS (
      SELECT FROM redrive.waiting AS due
      WHERE due.state = redrive.state_scheduled() AND due.next_at <= now_ms AND due.lane = of_lane
        AND redrive.letter_before(of_lane, due.priority, due.submitted_at, due.task) IS NULL);
END
$$;

-- Whether a task of an ordered lane goes before all others: it must run alone, or waits for its retry budget; or whether the
-- first ready one is behind a dead letter.
CREATE OR REPLACE FUNCTION redrive.is_blocked(of_lane bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM redrive.waiting WHERE waiting.state = redrive.state_alone() AND waiting.lane = of_lane)
    OR EXISTS (SELECT FROM redrive.waiting WHERE waiting.state = redrive.state_budgeted() AND waiting.lane = of_lane)
    OR redrive.is_behind_letter(of_lane);
END
$$;

-- Folds the rows of `tally` for a range of lanes into one per lane, once there are `many` of them.
CREATE OR REPLACE FUNCTION redrive.fold_tally(first_lane bigint, last_lane bigint, many bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) FROM redrive.tally WHERE lane BETWEEN first_lane AND last_lane) < many THEN
    RETURN;
  END IF;
  WITH folded_row AS (
    DELETE FROM redrive.tally WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM redrive.tally WHERE lane BETWEEN first_lane AND last_lane FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
  )
  INSERT INTO redrive.tally (lane, waiting, running, succeeded, skipped, dead, cancelled)
  SELECT lane, sum(waiting), sum(running), sum(succeeded), sum(skipped), sum(dead), sum(cancelled)
  FROM folded_row GROUP BY lane;
END
$$;
