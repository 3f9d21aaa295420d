-- Lets lanes that start slowly after a hold run one more task for each attempt that began after the hold and ended.
-- `ends` is a JSON array of {lane, began}.
CREATE OR REPLACE FUNCTION redrive.ramp_up(ends json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE redrive.lane
  -- From 256 on, the slow start is over.
  SET ramp = CASE WHEN ramp + more.count < 256 THEN ramp + more.count END
  FROM (
    SELECT slow.id, count(*)::int AS count, min(run.began) AS began
    FROM json_to_recordset(ends) AS run (lane bigint, began bigint)
    JOIN redrive.lane AS slow ON slow.id = ANY (ARRAY[run.lane]) AND slow.ramp IS NOT NULL
      AND run.began >= slow.held_until AND NOT slow.ordered
    GROUP BY slow.id
  ) AS more
  -- Checked again under the lock: the lane may have been held once more.
  WHERE lane.id = ANY (ARRAY[more.id]) AND lane.ramp IS NOT NULL AND more.began >= lane.held_until;
END
$$;

-- Whether there is anything that counts ends of attempts: lanes that start slowly, shared limits, budgets, open gates.
CREATE OR REPLACE FUNCTION redrive.has_any(
  OUT ramps boolean, OUT shared_limits boolean, OUT budgets boolean, OUT open_gates boolean
) LANGUAGE plpgsql AS $$
BEGIN
  ramps := EXISTS (SELECT FROM redrive.lane WHERE ramp IS NOT NULL);
  shared_limits := EXISTS (SELECT FROM redrive.shared_limit);
  budgets := EXISTS (SELECT FROM redrive.budget);
  open_gates := budgets AND EXISTS (SELECT FROM redrive.budget WHERE is_open);
END
$$;

-- Settles successes whose attempt is described by its time, worker, version, call and release alone: it is kept in the
-- task's own row. Given column by column, which is much cheaper to read than JSON; rows with a `next` are not successes. The first
-- element of `advances`, `numbers`, `began`, `took` and `workers` also stands for those that are absent; `versions`,
-- `calls` and `releases` may have a single element, for all. Returns the positions, from 1, of those that were still in their round,
-- and the argument of `ramp_up`.
CREATE OR REPLACE FUNCTION redrive.succeed(
  ids text[], rounds int[], advances int[], results text[], numbers int[], began bigint[], took bigint[], workers text[],
  versions text[], calls text[], releases text[], nexts int[], now_ms bigint, OUT settled int[], OUT ends json,
  OUT lanes bigint[], OUT counts redrive.attempt_count[]
) LANGUAGE plpgsql AS $$
DECLARE
  items text[];
  has constant record := redrive.has_any();
BEGIN
  WITH succeeded_task AS (
    UPDATE redrive.task
    SET state = redrive.state_succeeded(), round = task.round + 1, changed_at = now_ms, result = run.result,
      worker = coalesce(run.worker, workers[1]), ran_from = coalesce(run.began, succeed.began[1]),
      ran_to = coalesce(run.began, succeed.began[1]) + coalesce(run.took, succeed.took[1]),
      ran_attempt = coalesce(run.attempt, numbers[1]), entries = entries + 1, attempts = 0,
      deferrals = 0, losses = 0, undecided = false, cancel_requested = false, previous_delay = NULL, error_class = NULL,
      error_code = NULL, error_message = NULL, failure_state = NULL, failure_at = NULL, value = NULL,
      version = CASE cardinality(versions) WHEN 1 THEN versions[1] ELSE run.version END,
      call = CASE cardinality(calls) WHEN 1 THEN calls[1] ELSE run.call END,
      release = CASE cardinality(releases) WHEN 1 THEN releases[1] ELSE run.release END
    FROM unnest(ids, rounds, succeed.advances, results, numbers, succeed.began, succeed.took, workers, versions, calls,
      releases, nexts) WITH ORDINALITY
      AS run (id, round, advances, result, attempt, began, took, worker, version, call, release, next, n)
    WHERE run.next IS NULL AND task.id = ANY (ARRAY[run.id]) AND task.state = redrive.state_running()
      AND task.round = run.round AND task.advances = coalesce(run.advances, succeed.advances[1], task.advances)
    RETURNING run.n, task.id, task.lane, task.ran_from, task.ran_attempt, task.operation, task.answered, task.failure_group
  ), noted AS (
    INSERT INTO redrive.operation_count (operation, passed, succeeded)
    SELECT operation, count(*) FILTER (WHERE NOT answered), count(*) FROM succeeded_task
    WHERE operation IS NOT NULL GROUP BY operation
  ), tallied AS (
    INSERT INTO redrive.tally (lane, running, succeeded)
    SELECT lane, -count(*), count(*) FROM succeeded_task GROUP BY lane
  ), left_group AS (
    INSERT INTO redrive.group_tally (failure_group, hour, retrying)
    SELECT failure_group, redrive.hour_of(now_ms), -count(*) FROM succeeded_task WHERE failure_group IS NOT NULL
    GROUP BY failure_group
  ), listed AS (
    INSERT INTO redrive.ended (state, at, lane, tasks, task_lanes)
    SELECT redrive.state_succeeded(), now_ms, redrive.item_lane(lane), array_agg(id), array_agg(DISTINCT lane)
    FROM succeeded_task GROUP BY redrive.item_lane(lane)
  )
  SELECT array_agg(n),
    json_agg(json_build_object('lane', lane, 'began', ran_from)) FILTER (WHERE has.ramps),
    array_agg(id) FILTER (WHERE redrive.has_items(lane)),
    array_agg(lane) FILTER (WHERE has.shared_limits),
    (
      SELECT array_agg(ROW(alike.*)::redrive.attempt_count) FROM (
        SELECT lane, CASE WHEN has.open_gates THEN ran_from END, 'ok', NULL::text, ran_attempt = 1, count(*)
        FROM succeeded_task WHERE has.budgets GROUP BY 1, 2, 5
      ) AS alike
    )
  INTO settled, ends, items, lanes, counts
  FROM succeeded_task;
  IF items IS NOT NULL THEN
    PERFORM redrive.add_outputs(items);
  END IF;
END
$$;

-- Finds runs that have succeeded already within a transaction of their handler's own (see `complete`), given with their
-- numbers. Returns the numbers of those, once.
CREATE OR REPLACE FUNCTION redrive.acknowledge(
  ids text[], rounds int[], advances int[], numbers int[], now_ms bigint
) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
  acknowledged int[];
  ends json;
  lanes bigint[];
  counts redrive.attempt_count[];
BEGIN
  WITH completed_task AS (
    UPDATE redrive.task SET round = task.round + 1
    FROM unnest(ids, rounds, acknowledge.advances, numbers) AS run (id, round, advances, n)
    WHERE run.n IS NOT NULL AND task.id = ANY (ARRAY[run.id]) AND task.state = redrive.state_succeeded()
      AND task.round = run.round AND task.advances = coalesce(run.advances, acknowledge.advances[1], task.advances)
    RETURNING run.n, task.lane, task.ran_from, task.ran_attempt
  )
  SELECT array_agg(n), json_agg(json_build_object('lane', lane, 'began', ran_from)), array_agg(lane),
    array_agg(ROW(lane, ran_from, 'ok', NULL, ran_attempt = 1, 1)::redrive.attempt_count)
  INTO acknowledged, ends, lanes, counts
  FROM completed_task;
  IF ends IS NOT NULL THEN
    PERFORM redrive.ramp_up(ends);
  END IF;
  IF lanes IS NOT NULL AND EXISTS (SELECT FROM redrive.shared_limit) THEN
    PERFORM redrive.note_answers(lanes, ARRAY(SELECT 1 FROM unnest(lanes)), now_ms);
  END IF;
  IF counts IS NOT NULL AND redrive.is_any_budget() THEN
    PERFORM redrive.note_attempts(counts, now_ms);
  END IF;
  RETURN acknowledged;
END
$$;

-- Settles the successes of a batch, as `succeed` takes them. Returns the positions of those that took effect.
CREATE OR REPLACE FUNCTION redrive.settle_successes(
  ids text[], rounds int[], advances int[], results text[], numbers int[], began bigint[], took bigint[], workers text[],
  versions text[], calls text[], releases text[], nexts int[], now_ms bigint
) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
  done record := redrive.succeed(
    ids, rounds, advances, results, numbers, began, took, workers, versions, calls, releases, nexts, now_ms);
  succeeded int[] := coalesce(done.settled, '{}');
BEGIN
  IF done.ends IS NOT NULL THEN
    PERFORM redrive.ramp_up(done.ends);
  END IF;
  IF done.lanes IS NOT NULL THEN
    PERFORM redrive.note_answers(done.lanes, ARRAY(SELECT 1 FROM unnest(done.lanes)), now_ms);
  END IF;
  IF done.counts IS NOT NULL THEN
    PERFORM redrive.note_attempts(done.counts, now_ms);
  END IF;
  IF cardinality(succeeded) < cardinality(ids) - (SELECT count(next) FROM unnest(nexts) AS next) THEN
    succeeded := succeeded || redrive.acknowledge(ids, rounds, advances, ARRAY(
      SELECT CASE WHEN nexts[n] IS NULL THEN n END FROM generate_subscripts(ids, 1) AS n), now_ms);
  END IF;
  RETURN succeeded;
END
$$;

-- Settles outcomes as `settle_outcomes` takes them. Returns the numbers of those that took effect.
CREATE OR REPLACE FUNCTION redrive.settle_others(others json, now_ms bigint) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
  applied int[] := redrive.settle_outcomes(others, now_ms);
BEGIN
  IF cardinality(applied) < json_array_length(others -> 'outcomes') THEN
    SELECT applied || redrive.acknowledge(array_agg(id), array_agg(round), array_agg(advances), array_agg(n), now_ms)
    INTO applied
    FROM json_populate_recordset(
      json_populate_record(NULL::redrive.outcome, others -> 'shared'), others -> 'outcomes'
    ) WHERE type = 'succeeded';
  END IF;
  RETURN applied;
END
$$;

-- Notes that tasks have left their workers, by claim, and deletes the claims of which none is left.
CREATE OR REPLACE FUNCTION redrive.settle_claims(claims bigint[], counts int[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM redrive.claim USING unnest(claims, counts) AS done (id, count)
  WHERE claim.id = ANY (ARRAY[done.id]) AND claim.unsettled = done.count;
  UPDATE redrive.claim SET unsettled = unsettled - done.count
  FROM unnest(claims, counts) AS done (id, count) WHERE claim.id = ANY (ARRAY[done.id]);
END
$$;

-- Whether there are lanes where the end of one task may let another start.
CREATE OR REPLACE FUNCTION redrive.is_any_bounded() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM redrive.lane WHERE ramp IS NOT NULL OR concurrency IS NOT NULL)
    OR EXISTS (SELECT FROM redrive.shared_limit WHERE limits::jsonb ? 'concurrency');
END
$$;

-- Settles a batch: plain successes and advances column by column (see `succeed`), all others as `settle_outcomes` takes them. Rows
-- with a `next` advance to that element of `next_lanes` (see `lanes_after`); their value is in `results`. `claims` and
-- `counts` tell how many successes and others belong to which claim; `item_claims` are the claims of the advances, and
-- `uses` what attempts took from shared limits (see `correct_uses`).
--
-- Returns JSON: {settled, kept, kept_before, to_lanes, applied, now, is_any_bounded, is_any_budget, is_any_gate_open}. `settled` and `kept` are positions
-- in the columns, `kept_before` is [position, time] of advances that are repeated, `applied` are the numbers of others.
-- `is_any_bounded` tells that there are lanes where the end of one task may let another start. If the order of the batch
-- matters, nothing is done, and the answer is {is_order_needed}: the settlements have to come one by one.
CREATE OR REPLACE FUNCTION redrive.settle(
  ids text[], rounds int[], advances int[], lanes bigint[], results text[], numbers int[], began bigint[], took bigint[], workers text[],
  versions text[], calls text[], releases text[], nexts int[], next_lanes json, keeps boolean[], costs text[],
  details json[], item_claims bigint[], uses json, others json, claims bigint[], counts int[], at bigint
) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  items int := 0;
  to_lanes bigint[];
  succeeded int[] := '{}';
  applied int[] := '{}';
  kept int[] := '{}';
  gone int[] := '{}';
  kept_before json;
  gone_before int[];
BEGIN
  IF nexts IS NOT NULL THEN
    items := (SELECT count(next) FROM unnest(nexts) AS next);
    to_lanes := redrive.lanes_after(next_lanes);
    -- Several lanes may lead to the same one.
    nexts := ARRAY(
      SELECT CASE WHEN next IS NOT NULL THEN array_position(to_lanes, to_lanes[next]) END FROM unnest(nexts) AS next);
    IF (cardinality(ids) > 1 OR others IS NOT NULL) AND redrive.is_room_scarce(nexts, to_lanes, now_ms) THEN
      RETURN '{"is_order_needed":true}';
    END IF;
  END IF;
  IF uses IS NOT NULL THEN
    PERFORM redrive.correct_uses(uses, now_ms);
  END IF;
  IF cardinality(ids) > items THEN
    succeeded := redrive.settle_successes(
      ids, rounds, advances, results, numbers, began, took, workers, versions, calls, releases, nexts, now_ms);
  END IF;
  IF others IS NOT NULL THEN
    applied := redrive.settle_others(others, now_ms);
  END IF;
  IF items > 0 THEN
    SELECT * INTO kept, gone, kept_before, gone_before FROM redrive.settle_advances(ids, rounds, advances, lanes,
      results, numbers, began, took, workers, versions, calls, releases, nexts, to_lanes, keeps, costs, details, now_ms);
  END IF;
  -- Claims come last, so that nobody waits for a task while holding a lock on a claim. If some settlements were stale,
  -- the count stays too high.
  IF cardinality(succeeded) + cardinality(applied) + cardinality(kept) + cardinality(gone)
    = items + (SELECT coalesce(sum(count), 0) FROM unnest(counts) AS count)
  THEN
    PERFORM redrive.settle_claims(claims, counts);
    PERFORM redrive.settle_claims(ARRAY[claim], ARRAY[count]) FROM (
      SELECT coalesce(item_claims[n], item_claims[1]), count(*)::int FROM unnest(gone) AS n GROUP BY 1
    ) AS item_claim (claim, count);
  END IF;
  RETURN json_build_object(
    'settled', succeeded || gone || gone_before, 'kept', kept, 'kept_before', kept_before, 'to_lanes', to_lanes,
    'applied', applied, 'now', now_ms, 'is_any_budget', redrive.is_any_failure_budget(),
    'is_any_gate_open', EXISTS (SELECT FROM redrive.budget WHERE is_open),
    'is_any_bounded', uses IS NOT NULL OR redrive.is_any_bounded()
  )::text;
END
$$;

-- Calls the functions that settlements need, without data, so that this connection plans them before the first real
-- settlement: planning takes several times as long as a call. It waits for no lock, since settlements would wait for it.
CREATE OR REPLACE FUNCTION redrive.plan_settlements() RETURNS void LANGUAGE plpgsql /* verb */ SET lock_timeout = 100 AS $$
DECLARE
  none constant redrive.ended_attempt[] := '{}';
BEGIN
  PERFORM redrive.settle('{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, '{"outcomes": [], "groups": []}', '{}', '{}', NULL);
  PERFORM redrive.settle_successes('{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0);
  PERFORM redrive.is_any_group_missing('[]');
  PERFORM redrive.write_ended(none, NULL, NULL, 0);
  PERFORM redrive.count_failures(none, 0);
  PERFORM redrive.note_regressions(none, 0);
  PERFORM redrive.settle_claims('{}', '{}');
END
$$;
