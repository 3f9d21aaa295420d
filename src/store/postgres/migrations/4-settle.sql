-- What ends in a lane that starts slowly after a hold lets one more run, if it began after the hold. `ends` is a JSON array
-- of {lane, began}.
CREATE FUNCTION redrive.ramp_up(ends json) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off AS $$
BEGIN
  UPDATE redrive.lane
  -- A lane that may run so many at once has outgrown its slow start.
  SET ramp = CASE WHEN ramp + more.count < 256 THEN ramp + more.count END
  FROM (
    SELECT slow.id, count(*)::int AS count, min(run.began) AS began
    FROM json_to_recordset(ends) AS run (lane bigint, began bigint)
    JOIN redrive.lane AS slow ON slow.id = run.lane AND slow.ramp IS NOT NULL AND run.began >= slow.held_until
      AND NOT slow.ordered
    GROUP BY slow.id
  ) AS more
  -- Asked again: it may have been held once more since.
  WHERE lane.id = more.id AND lane.ramp IS NOT NULL AND more.began >= lane.held_until;
END
$$;

-- Settles tasks that succeeded and of whose attempt there is no more to say than when and who: it is kept in the task's
-- own row. Given column by column, which is much cheaper to read than JSON; of `numbers`, `began`, `took` and `workers` the
-- first stands for all that are absent. Returns those that were still in their round, counted from 1, and what `ramp_up` is
-- to be told.
CREATE FUNCTION redrive.succeed(
  ids text[], rounds int[], results text[], numbers int[], began bigint[], took bigint[], workers text[], now_ms bigint,
  OUT settled int[], OUT ends json
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  WITH written AS (
    UPDATE redrive.task
    SET state = 4, round = task.round + 1, changed_at = now_ms, result = run.result,
      worker = coalesce(run.worker, workers[1]), ran_from = coalesce(run.began, succeed.began[1]),
      ran_to = coalesce(run.began, succeed.began[1]) + coalesce(run.took, succeed.took[1]),
      ran_attempt = coalesce(run.attempt, numbers[1]), entries = entries + 1, attempts = 0,
      deferrals = 0, losses = 0, undecided = false, cancel_requested = false, previous_delay = NULL, error_class = NULL,
      error_code = NULL, error_message = NULL
    FROM unnest(ids, rounds, results, numbers, succeed.began, succeed.took, workers)
      WITH ORDINALITY AS run (id, round, result, attempt, began, took, worker, n)
    WHERE task.id = run.id AND task.state = 3 AND task.round = run.round
    RETURNING run.n, task.id, task.lane, task.ran_from
  ), counted AS (
    INSERT INTO redrive.tally (lane, running, succeeded)
    SELECT lane, -count(*), count(*) FROM written GROUP BY lane
  ), listed AS (
    INSERT INTO redrive.ended (state, at, tasks)
    SELECT 4, now_ms, array_agg(id) FROM written HAVING count(*) > 0
  )
  SELECT array_agg(n),
    CASE WHEN EXISTS (SELECT FROM redrive.lane WHERE ramp IS NOT NULL)
      THEN json_agg(json_build_object('lane', lane, 'began', ran_from)) END
  INTO settled, ends
  FROM written;
END
$$;

-- Applies any outcomes, and writes the ledger. Given a JSON array of {n, id, round, type, delay, is_backoff, result,
-- reason, and what the ledger keeps of an attempt}; `attempt` is absent where none was made. Besides the outcomes of the
-- contract there is `lost`: the worker died, and nobody has decided yet what follows. What comes after a deferral of its lane,
-- in the order of `n`, ended after that. Returns the numbers of those that were still in their round.
CREATE FUNCTION redrive.apply(outcomes json, now_ms bigint) RETURNS int[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  settled int[];
  ends json;
BEGIN
  WITH said AS (
    SELECT * FROM json_to_recordset(outcomes) AS said (
      n int, id text, round int, type text, delay float8, is_backoff boolean, result text, reason text,
      attempt int, began bigint, ended bigint, worker text, error_class text, error_code text, retry_after bigint,
      error text, random float8, policy text
    )
  ), ran AS MATERIALIZED (
    SELECT task.lane, task.priority, task.submitted_at, task.entries, task.attempts, task.deferrals, task.losses,
      task.undecided, task.previous_delay, task.error_class AS last_class, task.error_code AS last_code,
      task.error_message AS last_message, task.ordered, said.*,
      said.type IN ('succeeded', 'skipped') AS is_cleared,
      task.undecided AND said.type IN ('retry', 'dead') AS is_decision,
      -- Somebody wanted it to end: it does where it would have waited again.
      task.cancel_requested AND said.type IN ('retry', 'deferred', 'later', 'released', 'lost') AS is_cancelled
    -- One by one, in the order of their ids: however the table is planned for, it is not read as a whole.
    FROM (SELECT * FROM said ORDER BY id COLLATE "C") AS said CROSS JOIN LATERAL (
      SELECT task.*, (SELECT lane.ordered FROM redrive.lane WHERE lane.id = task.lane) AS ordered
      FROM redrive.task WHERE task.id = said.id AND task.state = 3 AND task.round = said.round
      FOR UPDATE OF task
    ) AS task
  ), next AS MATERIALIZED (
    SELECT *,
      CASE WHEN is_cancelled THEN 'cancelled' ELSE type END AS outcome,
      attempt IS NOT NULL AND NOT is_decision AND type <> 'released' AS is_run,
      type = 'lost' AS is_lost,
      CASE WHEN type IN ('retry', 'deferred', 'later', 'released', 'lost') AND NOT is_cancelled
        THEN ceil(now_ms + greatest(0, coalesce(delay, 0)))::bigint END AS next_at,
      max(n) FILTER (WHERE type = 'deferred' AND NOT is_cancelled) OVER (PARTITION BY lane) AS last_deferral
    FROM ran
  ), written AS (
    UPDATE redrive.task
    SET state = CASE next.outcome WHEN 'succeeded' THEN 4 WHEN 'skipped' THEN 5 WHEN 'dead' THEN 6
        WHEN 'cancelled' THEN 7 ELSE 3 END,
      round = task.round + 1,
      changed_at = now_ms,
      entries = next.entries + next.is_run::int,
      attempts = CASE WHEN next.is_cleared THEN 0
        ELSE next.attempts + (next.is_run AND next.outcome IN ('retry', 'dead') OR next.is_lost)::int END,
      deferrals = CASE WHEN next.is_cleared THEN 0 ELSE next.deferrals + (next.outcome = 'deferred')::int END,
      losses = CASE WHEN next.is_cleared THEN 0 ELSE next.losses + next.is_lost::int END,
      undecided = next.is_lost OR next.undecided AND next.type = 'released',
      previous_delay = CASE WHEN next.is_cleared THEN NULL
        WHEN next.outcome = 'retry' AND next.is_backoff THEN round(next.delay) ELSE next.previous_delay END,
      error_class = CASE WHEN NOT next.is_cleared THEN coalesce(next.error_class, next.last_class) END,
      error_code = CASE WHEN next.is_cleared THEN NULL
        WHEN next.error_class IS NULL THEN next.last_code ELSE next.error_code END,
      error_message = CASE WHEN next.is_cleared THEN NULL
        WHEN next.error_class IS NULL THEN next.last_message ELSE next.error END,
      reason = CASE WHEN next.outcome IN ('dead', 'skipped') THEN next.reason END,
      result = CASE WHEN next.outcome = 'succeeded' THEN next.result END,
      cancel_requested = false
    FROM next
    WHERE task.id = next.id
    RETURNING next.n, task.id, task.lane, task.state, next.began, next.outcome, next.last_deferral
  ), queued AS (
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at, alone)
    SELECT id, lane,
      CASE WHEN next_at > now_ms AND NOT ordered THEN 0 WHEN losses > 0 OR is_lost THEN 2 ELSE 1 END,
      priority, submitted_at, next_at, losses > 0 OR is_lost
    FROM next WHERE next_at IS NOT NULL
  ), listed AS (
    INSERT INTO redrive.ended (state, at, tasks)
    SELECT state, now_ms, array_agg(id) FROM written WHERE state > 3 GROUP BY state
  ), counted AS (
    INSERT INTO redrive.tally (lane, running, waiting, succeeded, skipped, dead, cancelled)
    SELECT lane, -count(*),
      count(*) FILTER (WHERE state = 3),
      count(*) FILTER (WHERE state = 4),
      count(*) FILTER (WHERE state = 5),
      count(*) FILTER (WHERE state = 6),
      count(*) FILTER (WHERE state = 7)
    FROM written GROUP BY lane
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, delay_ms, reason,
      error_class, error_code, retry_after, error, random, policy)
    SELECT id, entries + 1, attempt, began, ended, worker, CASE WHEN is_lost THEN type ELSE outcome END,
      CASE WHEN NOT is_cancelled THEN round(delay) END, CASE WHEN NOT is_cancelled THEN reason END,
      error_class, error_code, retry_after, error, random, policy
    FROM next WHERE is_run
  ), told AS (
    -- A lost attempt learns what was decided on it.
    UPDATE redrive.ledger
    SET delay_ms = CASE WHEN NOT next.is_cancelled THEN round(next.delay) END,
      reason = CASE WHEN NOT next.is_cancelled THEN next.reason END,
      error_class = next.error_class, error_code = next.error_code, retry_after = next.retry_after,
      error = next.error, random = next.random, policy = next.policy
    FROM next
    WHERE next.is_decision AND ledger.task = next.id AND ledger.sequence = next.entries
  ), held AS (
    UPDATE redrive.lane
    SET ramp = CASE WHEN hold.is_deferral THEN 1 ELSE ramp END, held_until = greatest(held_until, hold.until)
    FROM (
      SELECT lane, max(next_at) AS until, bool_or(outcome = 'deferred') AS is_deferral
      FROM next WHERE outcome = 'deferred' OR ordered AND next_at > now_ms
      GROUP BY lane
    ) AS hold
    WHERE lane.id = hold.lane
  )
  SELECT array_agg(written.n),
    json_agg(json_build_object('lane', written.lane, 'began', written.began))
      FILTER (WHERE written.outcome NOT IN ('deferred', 'released', 'cancelled', 'lost')
        AND written.n > coalesce(written.last_deferral, -1))
  INTO settled, ends
  FROM written;
  IF ends IS NOT NULL AND EXISTS (SELECT FROM redrive.lane WHERE ramp IS NOT NULL) THEN
    PERFORM redrive.ramp_up(ends);
  END IF;
  RETURN settled;
END
$$;

-- Which of these runs, given with their numbers, succeeded already within a transaction of their handler's own. They are told
-- so once.
CREATE FUNCTION redrive.acknowledge(ids text[], rounds int[], numbers int[]) RETURNS int[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  acknowledged int[];
  ends json;
BEGIN
  WITH told AS (
    UPDATE redrive.task SET round = task.round + 1
    FROM unnest(ids, rounds, numbers) AS run (id, round, n)
    WHERE task.id = run.id AND task.state = 4 AND task.round = run.round
    RETURNING run.n, task.lane, task.ran_from
  )
  SELECT array_agg(n), json_agg(json_build_object('lane', lane, 'began', ran_from)) INTO acknowledged, ends FROM told;
  IF ends IS NOT NULL THEN
    PERFORM redrive.ramp_up(ends);
  END IF;
  RETURN acknowledged;
END
$$;

-- Settles a batch: successes as `succeed` takes them, and others as `apply` does; `claims` and `counts` are how many of
-- which claim that is. Returns JSON: {succeeded, applied, is_any_bounded}, where the first two are the numbers of those that
-- took effect, and `is_any_bounded` says that there are lanes in which the end of one task may let another start.
CREATE FUNCTION redrive.settle(
  ids text[], rounds int[], results text[], numbers int[], began bigint[], took bigint[], workers text[], others json,
  claims bigint[], counts int[], at bigint
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  succeeded int[] := '{}';
  applied int[] := '{}';
  ends json;
BEGIN
  IF ids IS NOT NULL THEN
    SELECT coalesce(done.settled, '{}'), done.ends INTO succeeded, ends
    FROM redrive.succeed(ids, rounds, results, numbers, began, took, workers, now_ms) AS done;
    IF ends IS NOT NULL THEN
      PERFORM redrive.ramp_up(ends);
    END IF;
    IF cardinality(succeeded) < cardinality(ids) THEN
      succeeded := succeeded || redrive.acknowledge(ids, rounds, ARRAY(SELECT generate_subscripts(ids, 1)));
    END IF;
  END IF;
  IF others IS NOT NULL THEN
    applied := coalesce(redrive.apply(others, now_ms), '{}');
    IF cardinality(applied) < json_array_length(others) THEN
      SELECT applied || redrive.acknowledge(array_agg(id), array_agg(round), array_agg(n)) INTO applied
      FROM json_to_recordset(others) AS run (n int, id text, round int, type text) WHERE type = 'succeeded';
    END IF;
  END IF;
  -- Last, so that nobody waits for a task while it has a claim locked. If some came too late, the count stays too high.
  IF cardinality(succeeded) + cardinality(applied) = (SELECT sum(count) FROM unnest(counts) AS count) THEN
    DELETE FROM redrive.claim USING unnest(claims, counts) AS done (id, count)
    WHERE claim.id = done.id AND claim.unsettled = done.count;
    UPDATE redrive.claim SET unsettled = unsettled - done.count
    FROM unnest(claims, counts) AS done (id, count) WHERE claim.id = done.id;
  END IF;
  RETURN json_build_object(
    'succeeded', succeeded,
    'applied', applied,
    'is_any_bounded', EXISTS (SELECT FROM redrive.lane WHERE ramp IS NOT NULL OR concurrency IS NOT NULL)
  )::text;
END
$$;

-- Completes a task within a transaction of its handler's own. Its round stays, so that the worker, which settles it once
-- more when the handler has returned, is told that it is settled. Locks nothing but the task: nobody else has to wait until
-- the transaction is over. False if the task is not in that round any more.
CREATE FUNCTION redrive.complete(of_id text, of_claim bigint, of_round int, of_result text, at bigint) RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  settled int[];
BEGIN
  SELECT done.settled INTO settled
  FROM redrive.task CROSS JOIN redrive.claim CROSS JOIN LATERAL redrive.succeed(
    ARRAY[of_id], ARRAY[of_round], ARRAY[of_result], ARRAY[task.attempts + 1], ARRAY[claim.at],
    ARRAY[now_ms - claim.at], ARRAY[claim.worker], now_ms) AS done
  WHERE task.id = of_id AND claim.id = of_claim;
  UPDATE redrive.task SET round = of_round WHERE id = of_id AND settled IS NOT NULL;
  RETURN settled IS NOT NULL;
END
$$;
