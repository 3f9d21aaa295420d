-- Budgets: counting, and the gates as claims go by them. Whether a gate opens or closes is decided by
-- src/store/rules/budgets/gate.ts, after a settlement, from what `budgets` returns. Retry budgets are in retry-budgets.sql.

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

-- The budgets with their counts, as a JSON array of {id, kind, category, settings, gate, now, recent, probes, retries}, where
-- `retries` is what `retry_counts` returns; with `to_judge` only failure budgets whose gate is open, or that have counted a
-- failure within the last ten seconds.
CREATE OR REPLACE FUNCTION redrive.budgets(to_judge boolean, at bigint) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
BEGIN
  RETURN (
    SELECT coalesce(json_agg(json_build_object(
      'id', this.id, 'kind', this.kind, 'category', this.category, 'settings', this.settings, 'gate', this.gate,
      'now', now_ms, 'recent', recent.figures, 'probes', json_build_object(
        'ok', probes.ok, 'failed', probes.failed, 'none', probes.unanswered),
      'retries', CASE WHEN this.has_retries AND NOT to_judge THEN redrive.retry_counts(this, now_ms) END
    )), '[]')
    FROM redrive.budget AS this
    CROSS JOIN LATERAL redrive.probes_of(this.id, (this.gate::jsonb -> 'round')::int) AS probes
    CROSS JOIN LATERAL (
      SELECT json_build_object(
        'attempts', coalesce(sum(by_failure.ok + by_failure.failed), 0), 'failed', coalesce(sum(by_failure.failed), 0),
        'failure', coalesce((array_agg(by_failure.failure ORDER BY by_failure.failed DESC, by_failure.failure)
          FILTER (WHERE by_failure.failed > 0))[1], '')) AS figures
      FROM (
        SELECT tally.failure, sum(tally.ok) AS ok, sum(tally.failed) AS failed FROM redrive.budget_tally AS tally
        WHERE tally.budget = this.id AND tally.at <= now_ms
          AND tally.at > now_ms - (this.settings::jsonb -> 'failures' -> 'windowMs')::bigint
          -- Failures are counted in steps of ten seconds, though retries may need finer ones.
          AND tally.at - tally.at % 10000 > now_ms - (this.settings::jsonb -> 'failures' -> 'windowMs')::bigint
        GROUP BY tally.failure
      ) AS by_failure
    ) AS recent
    WHERE NOT to_judge OR this.is_open OR this.settings::jsonb -> 'failures' IS NOT NULL AND EXISTS (
      SELECT FROM redrive.budget_tally AS tally
      WHERE tally.budget = this.id AND tally.at > now_ms - 10000 AND tally.failed > 0)
  )::text;
END
$$;

-- Forgets the attempts that a budget has counted, except for its retries.
CREATE OR REPLACE FUNCTION redrive.forget_attempts(of_budget bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM redrive.budget_tally WHERE budget = of_budget AND first = 0 AND retried = 0;
  UPDATE redrive.budget_tally SET round = 0, failure = NULL, ok = 0, failed = 0, unanswered = 0 WHERE budget = of_budget;
END
$$;

-- Changes the gate of a budget, unless somebody else has changed it since. Returns whether it did. A gate that closes counts
-- afresh.
CREATE OR REPLACE FUNCTION redrive.change_gate(of_budget bigint, old_gate text, new_gate text) RETURNS boolean
LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  is_open_now boolean;
BEGIN
  UPDATE redrive.budget SET gate = new_gate WHERE id = of_budget AND gate = old_gate RETURNING is_open INTO is_open_now;
  IF NOT is_open_now THEN
    PERFORM redrive.forget_attempts(of_budget);
  END IF;
  RETURN is_open_now IS NOT NULL;
END
$$;

-- Closes the gate of a budget, which counts afresh. Returns whether it was open. Its next round of probes is told from
-- earlier ones.
CREATE OR REPLACE FUNCTION redrive.close_gate(of_kind text, of_category text, new_gate text) RETURNS boolean
LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  this redrive.budget;
BEGIN
  SELECT * INTO this FROM redrive.budget AS known
  WHERE known.kind = of_kind AND known.category IS NOT DISTINCT FROM of_category AND known.is_open FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  RETURN redrive.change_gate(
    this.id, this.gate, (new_gate::jsonb || jsonb_build_object('round', this.gate::jsonb -> 'round'))::text);
END
$$;

-- Sets the budget of a scope, or lifts it if `new_settings` is NULL. A failure budget that differs begins with a closed gate,
-- and the floor of a retry budget that differs begins anew.
-- Returns whether anything has changed.
CREATE OR REPLACE FUNCTION redrive.set_budget(
  of_kind text, of_category text, new_settings text, new_gate text, at bigint
) RETURNS boolean LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  this redrive.budget;
BEGIN
  PERFORM pg_advisory_xact_lock('redrive.budget'::regclass::bigint);
  SELECT * INTO this FROM redrive.budget AS known
  WHERE known.kind = of_kind AND known.category IS NOT DISTINCT FROM of_category;
  IF this.settings::jsonb IS NOT DISTINCT FROM new_settings::jsonb THEN
    RETURN false;
  END IF;
  IF new_settings IS NULL THEN
    DELETE FROM redrive.budget WHERE id = this.id;
    DELETE FROM redrive.budget_tally WHERE budget = this.id;
  ELSIF this.id IS NULL THEN
    INSERT INTO redrive.budget (kind, category, settings, gate) VALUES (of_kind, of_category, new_settings, new_gate);
  ELSE
    UPDATE redrive.budget SET settings = new_settings WHERE id = this.id;
    IF this.settings::jsonb -> 'failures' IS DISTINCT FROM new_settings::jsonb -> 'failures' THEN
      UPDATE redrive.budget
      SET gate = (new_gate::jsonb || jsonb_build_object('round', gate::jsonb -> 'round'))::text WHERE id = this.id;
      PERFORM redrive.forget_attempts(this.id);
    END IF;
  END IF;
  IF this.settings::jsonb -> 'retries' IS DISTINCT FROM new_settings::jsonb -> 'retries' THEN
    UPDATE redrive.budget_tally SET floor_at = NULL WHERE budget = this.id AND floor_at IS NOT NULL;
  END IF;
  -- The settings of a dependency hold for all its budgets.
  WITH other_budget AS (
    UPDATE redrive.budget AS other
    SET settings = (other.settings::jsonb || jsonb_build_object('retries', new_settings::jsonb -> 'retries'))::text
    WHERE other.has_retries AND redrive.dependency_of(other) = new_settings::jsonb #>> '{retries,dependency}'
      AND other.settings::jsonb -> 'retries' <> new_settings::jsonb -> 'retries'
    RETURNING id
  )
  UPDATE redrive.budget_tally SET floor_at = NULL
  FROM other_budget WHERE budget = ANY (ARRAY[other_budget.id]) AND floor_at IS NOT NULL;
  IF this.has_retries OR new_settings::jsonb -> 'retries' IS NOT NULL THEN
    PERFORM redrive.rebudget(of_kind, this.id, redrive.now_ms(at));
  END IF;
  RETURN true;
END
$$;

-- How many tasks an open gate lets through now: one, and two more for each that succeeded. The row is locked, so that no two
-- claims take the same place; if somebody else has locked it, none. A probe whose end was never told does not keep the gate
-- shut: after a minute without running tasks it lets another one through.
CREATE OR REPLACE FUNCTION redrive.gate_allowance(of_budget bigint, now_ms bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  this redrive.budget;
  probes record;
  taken bigint;
  allowed bigint;
BEGIN
  SELECT * INTO this FROM redrive.budget WHERE id = of_budget FOR UPDATE SKIP LOCKED;
  IF NOT FOUND OR (this.gate::jsonb -> 'until')::bigint > now_ms THEN
    RETURN 0;
  END IF;
  probes := redrive.probes_of(of_budget, (this.gate::jsonb -> 'round')::int);
  taken := (this.gate::jsonb -> 'taken')::bigint;
  -- If too many have failed, somebody is about to open the gate again.
  allowed := CASE
    WHEN probes.failed > (this.settings::jsonb -> 'failures' -> 'share')::float8 * (probes.ok + probes.failed) THEN 0
    ELSE 1 + 2 * probes.ok + probes.failed - taken
      + least(probes.unanswered, greatest(0, taken - probes.ok - probes.failed)) END;
  IF allowed <= 0 AND now_ms >= (this.gate::jsonb -> 'takenAt')::bigint + 60000 AND (
    SELECT coalesce(sum(tally.running), 0)
    FROM redrive.lane AS its JOIN redrive.tally ON tally.lane = ANY (ARRAY[its.id])
    WHERE its.kind = this.kind AND (this.category IS NULL OR its.category = this.category)
  ) <= 0 THEN
    RETURN 1;
  END IF;
  RETURN greatest(0, least(allowed, 1000000));
END
$$;

-- The open gates, the narrower ones first, and the budgets of retries; NULL if there are none. One statement for both, since
-- every claim asks.
CREATE OR REPLACE FUNCTION redrive.active_budgets(
  now_ms bigint, OUT gates redrive.gate[], OUT of_retries bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
  this redrive.budget;
  until bigint;
  lost_at bigint;
  allowed int;
BEGIN
  FOR this IN SELECT * FROM redrive.budget WHERE is_open OR has_retries ORDER BY category IS NULL, id LOOP
    IF this.has_retries THEN
      of_retries := of_retries || this.id;
    END IF;
    CONTINUE WHEN NOT this.is_open;
    until := (this.gate::jsonb -> 'until')::bigint;
    -- A probe that runs for longer rings when it ends.
    lost_at := (this.gate::jsonb -> 'takenAt')::bigint + 60000;
    allowed := 0;
    IF until <= now_ms THEN
      allowed := redrive.gate_allowance(this.id, now_ms);
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
    THEN ROW(gate.id, gate.kind, gate.category, gate.allowed - count, gate.taken + count, gate.next_look)::redrive.gate
    ELSE ROW(gate.*)::redrive.gate END)
  FROM unnest(gates) AS gate
$$;

-- Notes how many tasks a claim has taken through open gates. Their rows are locked.
CREATE OR REPLACE FUNCTION redrive.charge_gates(gates redrive.gate[], now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE redrive.budget
  SET gate = (budget.gate::jsonb || jsonb_build_object(
    'taken', (budget.gate::jsonb -> 'taken')::bigint + passed.taken, 'takenAt', now_ms))::text
  FROM unnest(gates) AS passed WHERE budget.id = ANY (ARRAY[passed.id]) AND passed.taken > 0;
END
$$;

-- Whether a gate of a lane is open.
CREATE OR REPLACE FUNCTION redrive.is_gated(of_kind text, of_category text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM redrive.budget
    WHERE budget.kind = of_kind AND budget.is_open AND (budget.category IS NULL OR budget.category = of_category)
  )
$$;
