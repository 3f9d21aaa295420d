-- Budgets: their rows, counting, and the gates as claims go by them. Whether a gate opens or closes is decided by
-- src/store/rules/budgets/gate.ts, after a settlement, from what `budgets_to_judge` returns. Retry budgets are in retry-budgets.sql.

-- Whether any kind has a budget. If not, nothing is counted.
CREATE OR REPLACE FUNCTION redrive.is_any_budget() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM redrive.budget);
END
$$;

-- Whether any kind has a failure budget. If not, no failure has to be judged.
CREATE OR REPLACE FUNCTION redrive.is_any_failure_budget() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM redrive.budget WHERE settings::jsonb -> 'failures' IS NOT NULL);
END
$$;

-- The size of the steps in which a budget counts, as in rules/budgets/retry-allowance.ts.
CREATE OR REPLACE FUNCTION redrive.bucket_ms(this redrive.budget) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN (this.settings::jsonb #>> '{retries,windowMs}')::bigint < 120000 THEN 1000 ELSE 10000 END
$$;

-- Counts attempts that have ended for the budgets of their lanes. An answer is 'ok', 'failed' or 'none'; the last counts only
-- where an open gate had let the task through, which is told by the time at which it began. A failure is told by JSON of its
-- code and its group. First attempts earn retries.
CREATE OR REPLACE FUNCTION redrive.note_attempts(counts redrive.attempt_count[], now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO redrive.budget_tally (budget, at, round, failure, ok, failed, unanswered, first)
  SELECT its.id, now_ms - now_ms % its.step, its.round, CASE WHEN one.answer = 'failed' THEN one.failure END,
    coalesce(sum(one.count) FILTER (WHERE one.answer = 'ok'), 0),
    coalesce(sum(one.count) FILTER (WHERE one.answer = 'failed'), 0),
    coalesce(sum(one.count) FILTER (WHERE one.answer = 'none'), 0),
    coalesce(sum(one.count) FILTER (WHERE one.is_first AND its.is_earning), 0)
  FROM unnest(counts) AS one
  CROSS JOIN LATERAL (
    SELECT budget.id, redrive.bucket_ms(budget) AS step, CASE WHEN budget.is_open AND coalesce(one.began, now_ms) >= (budget.gate::jsonb -> 'until')::bigint
      THEN (budget.gate::jsonb -> 'round')::int ELSE 0 END AS round,
      budget.has_retries AND (budget.category IS NOT NULL OR NOT EXISTS (
        SELECT FROM redrive.budget AS narrower
        WHERE narrower.kind = own.kind AND narrower.category = own.category AND narrower.has_retries)) AS is_earning
    FROM redrive.lane AS own JOIN redrive.budget ON budget.kind = own.kind
    WHERE own.id = one.lane AND (budget.category IS NULL OR budget.category = own.category)
    OFFSET 0
  ) AS its
  WHERE one.answer <> 'none' OR its.round > 0 OR one.is_first AND its.is_earning
  GROUP BY its.id, its.step, its.round, CASE WHEN one.answer = 'failed' THEN one.failure END;
END
$$;

-- The same for outcomes that `settle_outcomes` has written. A failure counts unless it is the payload's, a rate limit's or a loss.
CREATE OR REPLACE FUNCTION redrive.note_outcomes(
  batch redrive.ended_attempt[], is_any_gate_open boolean, now_ms bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM redrive.note_attempts(array_agg(ROW(
    lane, began, answer, json_build_array(error_code, failure_group), is_first, count)::redrive.attempt_count), now_ms)
  FROM (
    SELECT lane, CASE WHEN is_any_gate_open THEN began END, CASE
        WHEN NOT is_recorded OR is_lost THEN 'none'
        WHEN error_class = 'retryable' THEN 'failed'
        WHEN error_class IS NULL AND outcome IN ('succeeded', 'skipped') THEN 'ok'
        ELSE 'none' END,
      error_code, failure_group, is_recorded AND NOT is_lost AND attempt = 1 AND outcome NOT IN ('deferred', 'later'), count(*)
    FROM unnest(batch) GROUP BY 1, 2, 3, 4, 5, 6
  ) AS alike (lane, began, answer, error_code, failure_group, is_first, count);
END
$$;

-- Adds up the attempts of each budget, and forgets those that no window has any more.
CREATE OR REPLACE FUNCTION redrive.fold_attempts(now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  this redrive.budget;
BEGIN
  FOR this IN SELECT * FROM redrive.budget LOOP
    DELETE FROM redrive.budget_tally
    WHERE budget = this.id AND round <> (this.gate::jsonb -> 'round')::int AND at < now_ms - 10000 - greatest(
      (this.settings::jsonb -> 'failures' -> 'windowMs')::bigint, (this.settings::jsonb -> 'retries' -> 'windowMs')::bigint);
    WITH folded_row AS (
      DELETE FROM redrive.budget_tally WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM redrive.budget_tally WHERE budget = this.id FOR UPDATE SKIP LOCKED
      ))
      RETURNING *
    )
    INSERT INTO redrive.budget_tally (budget, at, round, failure, ok, failed, unanswered, first, retried, floor_at)
    SELECT budget, at, round, failure, sum(ok), sum(failed), sum(unanswered), sum(first), sum(retried), max(floor_at)
    FROM folded_row GROUP BY budget, at, round, failure;
  END LOOP;
END
$$;

-- How the tasks have ended that an open gate let through in its present round.
CREATE OR REPLACE FUNCTION redrive.probes_of(
  of_budget bigint, of_round int, OUT ok bigint, OUT failed bigint, OUT unanswered bigint
) LANGUAGE plpgsql AS $$
BEGIN
  SELECT coalesce(sum(tally.ok), 0), coalesce(sum(tally.failed), 0), coalesce(sum(tally.unanswered), 0)
  INTO ok, failed, unanswered
  FROM redrive.budget_tally AS tally WHERE tally.budget = of_budget AND tally.round = of_round AND of_round > 0;
END
$$;

-- The failures and successes of a budget within its window, as JSON: {attempts, failed, failure}, the last being the commonest.
CREATE OR REPLACE FUNCTION redrive.recent_attempts(this redrive.budget, now_ms bigint) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  since constant bigint := now_ms - (this.settings::jsonb -> 'failures' -> 'windowMs')::bigint;
BEGIN
  RETURN (
    SELECT json_build_object(
      'attempts', coalesce(sum(by_failure.ok + by_failure.failed), 0), 'failed', coalesce(sum(by_failure.failed), 0),
      'failure', coalesce((array_agg(by_failure.failure ORDER BY by_failure.failed DESC, by_failure.failure)
        FILTER (WHERE by_failure.failed > 0))[1], ''))
    FROM (
      SELECT tally.failure, sum(tally.ok) AS ok, sum(tally.failed) AS failed FROM redrive.budget_tally AS tally
      WHERE tally.budget = this.id AND tally.at <= now_ms AND tally.at > since
        -- Failures are counted in steps of ten seconds, though retries may need finer ones.
        AND tally.at - tally.at % 10000 > since
      GROUP BY tally.failure
    ) AS by_failure
  );
END
$$;

-- A budget with the figures by which its gate is judged, as JSON: {id, kind, category, settings, gate, recent, probes}.
CREATE OR REPLACE FUNCTION redrive.counted_budget(this redrive.budget, now_ms bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  probes constant record := redrive.probes_of(this.id, (this.gate::jsonb -> 'round')::int);
BEGIN
  RETURN jsonb_build_object(
    'id', this.id, 'kind', this.kind, 'category', this.category, 'settings', this.settings, 'gate', this.gate,
    'recent', redrive.recent_attempts(this, now_ms),
    'probes', jsonb_build_object('ok', probes.ok, 'failed', probes.failed, 'none', probes.unanswered));
END
$$;

-- All budgets as `counted_budget` has them, with `retries`, as `retry_counts` has them, how many retries are due, and held, what
-- attempts have spent, and how many tasks run.
CREATE OR REPLACE FUNCTION redrive.list_budgets(now_ms bigint) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(jsonb_agg(redrive.counted_budget(this, now_ms) || jsonb_build_object(
      'retries', redrive.retry_counts(this, now_ms), 'held', redrive.held_retries(this.id, now_ms),
      'spent', redrive.spent_windows(this, now_ms), 'running', redrive.running_under(this))), '[]')
    FROM redrive.budget AS this
  )::text;
END
$$;

-- The budgets, as `counted_budget` has them, whose gate is open or that have counted a failure within the last ten seconds.
CREATE OR REPLACE FUNCTION redrive.budgets_to_judge(now_ms bigint) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(jsonb_agg(redrive.counted_budget(this, now_ms)), '[]') FROM redrive.budget AS this
    WHERE this.is_open OR this.settings::jsonb -> 'failures' IS NOT NULL AND EXISTS (
      SELECT FROM redrive.budget_tally AS tally
      WHERE tally.budget = this.id AND tally.at > now_ms - 10000 AND tally.failed > 0)
  )::text;
END
$$;

-- All budgets, as a JSON array of {id, kind, category, settings, gate}. Nobody else sets or lifts one, or changes a gate, until
-- the transaction ends.
CREATE OR REPLACE FUNCTION redrive.lock_budgets() RETURNS text LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('redrive.budget'::regclass::bigint);
  RETURN (SELECT coalesce(json_agg(this), '[]') FROM (
    SELECT id, kind, category, settings, gate FROM redrive.budget ORDER BY id FOR UPDATE) AS this)::text;
END
$$;

-- Forgets the attempts that a budget has counted, except for its retries.
CREATE OR REPLACE FUNCTION redrive.forget_attempts(of_budget bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM redrive.budget_tally WHERE budget = of_budget AND first = 0 AND retried = 0;
  UPDATE redrive.budget_tally SET round = 0, failure = NULL, ok = 0, failed = 0, unanswered = 0 WHERE budget = of_budget;
END
$$;

-- Adds a budget, or changes one. If it counts afresh, its attempts are forgotten; if its floor is fresh, what that was used
-- for; if its windows are, what attempts have spent.
CREATE OR REPLACE FUNCTION redrive.save_budget(
  of_budget bigint, of_kind text, of_category text, new_settings text, new_gate text, counts_afresh boolean,
  has_fresh_floor boolean, has_fresh_windows boolean
) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  IF of_budget IS NULL THEN
    INSERT INTO redrive.budget (kind, category, settings, gate) VALUES (of_kind, of_category, new_settings, new_gate);
    RETURN;
  END IF;
  UPDATE redrive.budget SET settings = new_settings, gate = new_gate WHERE id = of_budget;
  IF counts_afresh THEN
    PERFORM redrive.forget_attempts(of_budget);
  END IF;
  IF has_fresh_floor THEN
    UPDATE redrive.budget_tally SET floor_at = NULL WHERE budget = of_budget AND floor_at IS NOT NULL;
  END IF;
  IF has_fresh_windows THEN
    DELETE FROM redrive.budget_cost WHERE budget = of_budget;
  END IF;
END
$$;

-- Forgets a budget, and what it has counted.
CREATE OR REPLACE FUNCTION redrive.drop_budget(of_budget bigint) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  DELETE FROM redrive.budget WHERE id = of_budget;
  DELETE FROM redrive.budget_tally WHERE budget = of_budget;
  DELETE FROM redrive.budget_cost WHERE budget = of_budget;
END
$$;

-- Changes the gate of a budget, unless somebody else has changed it since. Returns whether it did. A gate that closes counts
-- afresh.
CREATE OR REPLACE FUNCTION redrive.change_gate(of_budget bigint, old_gate text, new_gate text) RETURNS boolean
LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  is_open_now boolean;
BEGIN
  UPDATE redrive.budget SET gate = new_gate WHERE id = of_budget AND gate::jsonb = old_gate::jsonb
  RETURNING is_open INTO is_open_now;
  IF NOT is_open_now THEN
    PERFORM redrive.forget_attempts(of_budget);
  END IF;
  RETURN is_open_now IS NOT NULL;
END
$$;

-- How many tasks an open gate lets through now: one, and two more for each that succeeded. The row is locked, so that no two
-- claims take the same place; if somebody else has locked it, none. A probe whose end was never told does not keep the gate
-- shut: after a minute without running tasks it lets another one through.
CREATE OR REPLACE FUNCTION redrive.probes_left(of_budget bigint, now_ms bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  this redrive.budget;
  probes record;
  started bigint;
  allowed bigint;
BEGIN
  SELECT * INTO this FROM redrive.budget WHERE id = of_budget FOR UPDATE SKIP LOCKED;
  IF NOT FOUND OR (this.gate::jsonb -> 'until')::bigint > now_ms THEN
    RETURN 0;
  END IF;
  probes := redrive.probes_of(of_budget, (this.gate::jsonb -> 'round')::int);
  started := (this.gate::jsonb -> 'started')::bigint;
  -- If too many have failed, somebody is about to open the gate again.
  allowed := CASE
    WHEN probes.failed > (this.settings::jsonb -> 'failures' -> 'share')::float8 * (probes.ok + probes.failed) THEN 0
    ELSE 1 + 2 * probes.ok + probes.failed - started
      + least(probes.unanswered, greatest(0, started - probes.ok - probes.failed)) END;
  IF allowed <= 0 AND now_ms >= (this.gate::jsonb -> 'startedAt')::bigint + 60000 AND redrive.running_under(this) <= 0 THEN
    RETURN 1;
  END IF;
  RETURN greatest(0, least(allowed, 1000000));
END
$$;

-- The open gates and the cost budgets of the kinds of these rooms, the narrower ones first, and the budgets of retries; NULL if
-- there are none. One statement for all, since every claim asks.
CREATE OR REPLACE FUNCTION redrive.active_budgets(
  rooms json, now_ms bigint, OUT gates redrive.gate[], OUT of_retries bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
  this redrive.budget;
  until bigint;
  lost_at bigint;
  allowed int;
  of_cost redrive.gate;
BEGIN
  FOR this IN SELECT * FROM redrive.budget WHERE is_open OR has_retries OR has_costs ORDER BY category IS NULL, id LOOP
    IF this.has_retries THEN
      of_retries := of_retries || this.id;
    END IF;
    IF this.has_costs AND this.kind IN (
      SELECT unnest(room.kinds) FROM json_populate_recordset(NULL::redrive.room, rooms) AS room
    ) THEN
      of_cost := redrive.cost_gate(this, now_ms);
      gates := CASE WHEN of_cost.kind IS NULL THEN gates ELSE gates || of_cost END;
    END IF;
    CONTINUE WHEN NOT this.is_open;
    until := (this.gate::jsonb -> 'until')::bigint;
    -- A probe that runs for longer rings when it ends.
    lost_at := (this.gate::jsonb -> 'startedAt')::bigint + 60000;
    allowed := 0;
    IF until <= now_ms THEN
      allowed := redrive.probes_left(this.id, now_ms);
    END IF;
    gates := gates || ROW(
      this.id, this.kind, this.category, allowed, 0, CASE WHEN until > now_ms THEN until WHEN lost_at > now_ms THEN lost_at ELSE now_ms + 60000 END)::redrive.gate;
  END LOOP;
END
$$;

-- How many tasks of a kind and category these gates let through; NULL: any number.
CREATE OR REPLACE FUNCTION redrive.gates_allow(gates redrive.gate[], of_kind text, of_category text) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
  SELECT min(gate.allowed) FROM unnest(gates) AS gate
  WHERE gate.kind = of_kind AND (gate.category IS NULL OR gate.category = of_category)
$$;

-- The gates after they have let tasks of a kind and category through.
CREATE OR REPLACE FUNCTION redrive.gates_after(gates redrive.gate[], of_kind text, of_category text, count int)
RETURNS redrive.gate[] LANGUAGE sql IMMUTABLE AS $$
  SELECT array_agg(CASE WHEN gate.kind = of_kind AND (gate.category IS NULL OR gate.category = of_category)
    THEN ROW(gate.id, gate.kind, gate.category, gate.allowed - count, gate.started + count, gate.next_look)::redrive.gate
    ELSE ROW(gate.*)::redrive.gate END)
  FROM unnest(gates) AS gate
$$;

-- Notes how many tasks a claim has started behind open gates. Their rows are locked.
CREATE OR REPLACE FUNCTION redrive.charge_gates(gates redrive.gate[], now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE redrive.budget
  SET gate = (budget.gate::jsonb || jsonb_build_object(
    'started', (budget.gate::jsonb -> 'started')::bigint + passed.started, 'startedAt', now_ms))::text
  FROM unnest(gates) AS passed WHERE budget.id = ANY (ARRAY[passed.id]) AND passed.started > 0;
END
$$;

-- Whether only a claim may start tasks of a lane: a gate is open, or their cost is limited.
CREATE OR REPLACE FUNCTION redrive.is_gated(of_kind text, of_category text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM redrive.budget
    WHERE budget.kind = of_kind AND (budget.is_open OR budget.has_costs)
      AND (budget.category IS NULL OR budget.category = of_category)
  )
$$;
