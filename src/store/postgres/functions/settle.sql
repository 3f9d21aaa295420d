-- Lets lanes that start slowly after a hold run one more task for each attempt that began after the hold and ended.
-- `ends` is a JSON array of {lane, began}. The rule is `rampedUp` of src/store/rules/lane-limits.ts.
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
  SELECT EXISTS (SELECT FROM redrive.lane WHERE ramp IS NOT NULL), EXISTS (SELECT FROM redrive.shared_limit),
    EXISTS (SELECT FROM redrive.budget), EXISTS (SELECT FROM redrive.budget WHERE is_open)
  INTO ramps, shared_limits, budgets, open_gates;
END
$$;

-- The plain successes of a batch: the rows that do not advance. Of a column in which every row has a value, the first also
-- stands for those that are absent. A version, call or release that comes alone is that of all rows.
CREATE OR REPLACE FUNCTION redrive.successes_in(batch redrive.settlement_columns) RETURNS TABLE (
  n int, id text, round int, advances int, result text, attempt int, began bigint, took bigint, worker text, version text,
  call text, release text
) LANGUAGE sql IMMUTABLE AS $$
  SELECT run.n::int, run.id, run.round, coalesce(run.advances, batch.advances[1]), run.result,
    coalesce(run.attempt, batch.attempts[1]), coalesce(run.began, batch.began[1]), coalesce(run.took, batch.took[1]),
    coalesce(run.worker, batch.workers[1]),
    CASE cardinality(batch.versions) WHEN 1 THEN batch.versions[1] ELSE run.version END,
    CASE cardinality(batch.calls) WHEN 1 THEN batch.calls[1] ELSE run.call END,
    CASE cardinality(batch.releases) WHEN 1 THEN batch.releases[1] ELSE run.release END
  FROM unnest(batch.ids, batch.rounds, batch.advances, batch.results, batch.attempts, batch.began, batch.took,
    batch.workers, batch.versions, batch.calls, batch.releases, batch.nexts)
    WITH ORDINALITY AS run (id, round, advances, result, attempt, began, took, worker, version, call, release, next, n)
  WHERE run.next IS NULL
$$;

-- The same of the advances. Successes are read without the columns that only advances have, since every column costs.
CREATE OR REPLACE FUNCTION redrive.advances_in(batch redrive.settlement_columns) RETURNS TABLE (
  n int, id text, round int, advances int, lane bigint, result text, attempt int, began bigint, took bigint, worker text,
  version text, call text, release text, next int, keep boolean, cost text, details json
) LANGUAGE sql IMMUTABLE AS $$
  SELECT run.n::int, run.id, run.round, coalesce(run.advances, batch.advances[1]), coalesce(run.lane, batch.lanes[1]),
    run.result, coalesce(run.attempt, batch.attempts[1]), coalesce(run.began, batch.began[1]),
    coalesce(run.took, batch.took[1]), coalesce(run.worker, batch.workers[1]),
    CASE cardinality(batch.versions) WHEN 1 THEN batch.versions[1] ELSE run.version END,
    CASE cardinality(batch.calls) WHEN 1 THEN batch.calls[1] ELSE run.call END,
    CASE cardinality(batch.releases) WHEN 1 THEN batch.releases[1] ELSE run.release END,
    run.next, run.keep, run.cost, run.details
  FROM unnest(batch.ids, batch.rounds, batch.advances, batch.lanes, batch.results, batch.attempts, batch.began, batch.took,
    batch.workers, batch.versions, batch.calls, batch.releases, batch.nexts, batch.keeps, batch.costs, batch.details)
    WITH ORDINALITY AS run (id, round, advances, lane, result, attempt, began, took, worker, version, call, release, next,
      keep, cost, details, n)
  WHERE run.next IS NOT NULL
$$;

-- How many rows of a batch advance.
CREATE OR REPLACE FUNCTION redrive.count_advances(batch redrive.settlement_columns) RETURNS int LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(num_nonnulls(VARIADIC batch.nexts), 0)
$$;

-- Settles the plain successes of a batch: each attempt is described by its time, worker, version, call and release alone, and
-- is kept in the task's own row. The same as `afterSettlement` of src/store/rules/after-settlement.ts, and as
-- src/store/sqlite/successes.ts.
--
-- Returns the positions, from 1, of those that were still in their round, the argument of `ramp_up`, and those of
-- `note_answers` and `note_attempts` where something counts them.
CREATE OR REPLACE FUNCTION redrive.succeed(
  batch redrive.settlement_columns, now_ms bigint,
  OUT settled int[], OUT ends json, OUT lanes bigint[], OUT counts redrive.attempt_count[]
) LANGUAGE plpgsql AS $$
DECLARE
  items text[];
  keyed text[];
  has constant record := redrive.has_any();
BEGIN
  WITH succeeded_task AS (
    UPDATE redrive.task
    SET state = redrive.state_succeeded(), round = task.round + 1, changed_at = now_ms, result = run.result,
      worker = run.worker, ran_from = run.began, ran_to = run.began + run.took, ran_attempt = run.attempt,
      entries = entries + 1, attempts = 0, deferrals = 0, losses = 0, undecided = false, cancel_requested = false,
      previous_delay = NULL, error_class = NULL, error_code = NULL, error_message = NULL, failure_state = NULL,
      failure_at = NULL, value = NULL, version = run.version, call = run.call, release = run.release
    FROM redrive.successes_in(batch) AS run
    WHERE task.id = ANY (ARRAY[run.id]) AND task.state = redrive.state_running()
      AND task.round = run.round AND task.advances = coalesce(run.advances, task.advances)
    RETURNING run.n, task.id, task.lane, task.ran_from, task.ran_attempt, task.operation, task.answered, task.failure_group,
      task.unique_key
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
    array_agg(id) FILTER (WHERE unique_key IS NOT NULL),
    array_agg(lane) FILTER (WHERE has.shared_limits),
    (
      SELECT array_agg(ROW(alike.*)::redrive.attempt_count) FROM (
        SELECT lane, CASE WHEN has.open_gates THEN ran_from END, 'ok', NULL::text, ran_attempt = 1, count(*)
        FROM succeeded_task WHERE has.budgets GROUP BY 1, 2, 5
      ) AS alike
    )
  INTO settled, ends, items, keyed, lanes, counts
  FROM succeeded_task;
  IF items IS NOT NULL THEN
    PERFORM redrive.add_outputs(items);
  END IF;
  IF keyed IS NOT NULL THEN
    PERFORM redrive.release_keys(keyed, now_ms);
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
    WHERE task.id = ANY (ARRAY[run.id]) AND task.state = redrive.state_succeeded()
      AND task.round = run.round AND task.advances = coalesce(run.advances, task.advances)
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

-- Settles the plain successes of a batch. Returns the positions of those that took effect.
CREATE OR REPLACE FUNCTION redrive.settle_successes(batch redrive.settlement_columns, now_ms bigint) RETURNS int[]
LANGUAGE plpgsql AS $$
DECLARE
  done record := redrive.succeed(batch, now_ms);
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
  IF cardinality(succeeded) < cardinality(batch.ids) - redrive.count_advances(batch) THEN
    SELECT succeeded || redrive.acknowledge(array_agg(id), array_agg(round), array_agg(advances), array_agg(n), now_ms)
    INTO succeeded
    FROM redrive.successes_in(batch);
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
    OR EXISTS (
      SELECT FROM redrive.shared_limit WHERE quota IS NULL AND limits::jsonb ? 'concurrency')
    -- What limits the quotas of a kind.
    OR EXISTS (
      SELECT FROM redrive.shared_limit WHERE quota IS NOT NULL AND quota = '' AND limits::jsonb ? 'concurrency')
    OR EXISTS (SELECT FROM redrive.budget WHERE has_costs);
END
$$;

-- Settles a batch, given as JSON of `redrive.settlement_columns`, save for one column: results may be long, and JSON takes
-- a third more to read them.
--
-- Returns JSON: {settled, kept, kept_before, to_lanes, applied, now, is_any_bounded, is_any_budget, is_any_gate_open,
-- is_any_refusal}.
-- `settled` and `kept` are positions in the columns, `kept_before` is [position, time] of advances that are repeated,
-- `applied` are the numbers of others. `is_any_bounded` tells that there are lanes where the end of one task may let another
-- start. If the order of the batch matters, nothing is done, and the answer is {is_order_needed}: the settlements have to
-- come one by one.
CREATE OR REPLACE FUNCTION redrive.settle(columns json, results text[], at bigint) RETURNS text
LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  batch redrive.settlement_columns := json_populate_record(NULL::redrive.settlement_columns, columns);
  advancing int := redrive.count_advances(batch);
  succeeded int[] := '{}';
  applied int[] := '{}';
  kept int[] := '{}';
  gone int[] := '{}';
  kept_before json;
  gone_before int[];
BEGIN
  batch.results := results;
  IF advancing > 0 THEN
    batch.to_lanes := redrive.lanes_after(batch.next_lanes);
    -- Several lanes may lead to the same one.
    batch.nexts := ARRAY(
      SELECT CASE WHEN next IS NOT NULL THEN array_position(batch.to_lanes, batch.to_lanes[next]) END
      FROM unnest(batch.nexts) AS next);
    IF (cardinality(batch.ids) > 1 OR batch.others IS NOT NULL) AND redrive.is_room_scarce(batch, now_ms) THEN
      RETURN '{"is_order_needed":true}';
    END IF;
  END IF;
  IF batch.uses IS NOT NULL THEN
    PERFORM redrive.spend(batch.uses, now_ms);
    PERFORM redrive.correct_uses(batch.uses, now_ms);
  END IF;
  IF cardinality(batch.ids) > advancing THEN
    succeeded := redrive.settle_successes(batch, now_ms);
  END IF;
  IF batch.others IS NOT NULL THEN
    applied := redrive.settle_others(batch.others, now_ms);
  END IF;
  IF advancing > 0 THEN
    SELECT * INTO kept, gone, kept_before, gone_before FROM redrive.settle_advances(batch, now_ms);
  END IF;
  -- Claims come last, so that nobody waits for a task while holding a lock on a claim. If some settlements were stale,
  -- the count stays too high.
  IF cardinality(succeeded) + cardinality(applied) + cardinality(kept) + cardinality(gone)
    = advancing + (SELECT coalesce(sum(count), 0) FROM unnest(batch.counts) AS count)
  THEN
    PERFORM redrive.settle_claims(batch.claims, batch.counts);
    PERFORM redrive.settle_claims(ARRAY[claim], ARRAY[count]) FROM (
      SELECT coalesce(batch.item_claims[n], batch.item_claims[1]), count(*)::int FROM unnest(gone) AS n GROUP BY 1
    ) AS item_claim (claim, count);
  END IF;
  RETURN json_build_object(
    'settled', succeeded || gone || gone_before, 'kept', kept, 'kept_before', kept_before, 'to_lanes', batch.to_lanes,
    'applied', applied, 'now', now_ms, 'is_any_budget', redrive.is_any_failure_budget(),
    'is_any_gate_open', EXISTS (SELECT FROM redrive.budget WHERE is_open),
    'is_any_refusal', batch.others IS NOT NULL AND redrive.is_any_refusal(),
    'is_any_bounded', batch.uses IS NOT NULL OR redrive.is_any_bounded()
  )::text;
END
$$;

-- Calls the functions that settlements need, without data, so that this connection plans them before the first real
-- settlement: planning takes several times as long as a call. It waits for no lock, since settlements would wait for it.
CREATE OR REPLACE FUNCTION redrive.plan_settlements() RETURNS void LANGUAGE plpgsql /* verb */ SET lock_timeout = 100 AS $$
DECLARE
  none constant redrive.ended_attempt[] := '{}';
BEGIN
  PERFORM redrive.settle('{"others": {"outcomes": [], "groups": []}}', NULL, NULL);
  PERFORM redrive.settle_successes(json_populate_record(NULL::redrive.settlement_columns, '{"ids": []}'), 0);
  PERFORM redrive.is_any_group_missing('[]');
  PERFORM redrive.write_ended(none, NULL, NULL, 0);
  PERFORM redrive.count_failures(none, 0);
  PERFORM redrive.note_regressions(none, 0);
  PERFORM redrive.settle_claims('{}', '{}');
END
$$;
