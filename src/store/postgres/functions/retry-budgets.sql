-- Retry budgets: how many retries may become ready. `retries_left`, `floor_after` and `floor_asks_at` repeat the rules of
-- src/store/rules/budgets/retry-allowance.ts, which explains them; a test compares the two.

-- The budgets of retries; NULL if there are none.
CREATE OR REPLACE FUNCTION redrive.retry_budgets() RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT array_agg(id) FROM redrive.budget WHERE has_retries);
END
$$;

-- The retry budget of a kind and category: that of the category, or else that of the kind. NULL if there is none.
CREATE OR REPLACE FUNCTION redrive.retry_budget(of_kind text, of_category text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT budget.id FROM redrive.budget
  WHERE budget.kind = of_kind AND coalesce(budget.category = of_category, true) AND budget.has_retries
  ORDER BY budget.category IS NULL LIMIT 1
$$;

-- The retry budgets of these lanes, in their order; NULL if none of them has one. No budget is set or lifted until the
-- transaction has ended: a retry under a budget that is gone would wait for ever.
CREATE OR REPLACE FUNCTION redrive.retry_budgets_of(lanes bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  budgets bigint[];
BEGIN
  IF lanes IS NULL OR lanes = '{}' OR redrive.retry_budgets() IS NULL THEN
    RETURN NULL;
  END IF;
  PERFORM pg_advisory_xact_lock_shared('redrive.budget'::regclass::bigint);
  budgets := ARRAY(
    SELECT (SELECT redrive.retry_budget(its.kind, its.category) FROM redrive.lane AS its WHERE its.id = given.lane)
    FROM unnest(lanes) WITH ORDINALITY AS given (lane, n) ORDER BY given.n);
  RETURN CASE WHEN num_nonnulls(VARIADIC budgets) > 0 THEN budgets END;
END
$$;

-- The dependency of a retry budget; NULL if it has none.
CREATE OR REPLACE FUNCTION redrive.dependency_of(this redrive.budget) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT this.settings::jsonb #>> '{retries,dependency}'
$$;

-- The budgets that share an allowance with this one, which have the same settings: those of its dependency, or it alone.
CREATE OR REPLACE FUNCTION redrive.sharing_retries(this redrive.budget) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
  IF redrive.dependency_of(this) IS NULL THEN
    RETURN ARRAY[this.id];
  END IF;
  RETURN ARRAY(
    SELECT other.id FROM redrive.budget AS other
    WHERE other.has_retries AND redrive.dependency_of(other) = redrive.dependency_of(this) ORDER BY other.id);
END
$$;

-- The floor of a retry budget: how many retries it saves up, and how long each of them takes. `retries` are its settings.
CREATE OR REPLACE FUNCTION redrive.floor_of(retries jsonb, OUT burst float8, OUT each_ms float8)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  floor_ constant float8 := retries -> 'floor';
  window_ms constant float8 := retries -> 'windowMs';
  quota constant float8 := floor(floor_ * window_ms / 1000 + 1e-9);
BEGIN
  burst := least(ceil(floor_), 1 + floor(quota * 0.01));
  each_ms := window_ms / (quota - burst + 1);
END
$$;

-- How many retries may be let through.
CREATE OR REPLACE FUNCTION redrive.retries_left(
  retries jsonb, first bigint, retried bigint, floor_at float8, now_ms bigint
) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  its constant record := redrive.floor_of(retries);
BEGIN
  RETURN greatest(0, least(1000000, floor(greatest(
    (retries -> 'share')::float8 * first - retried + 1e-9,
    least(its.burst, (now_ms - floor_at + 1e-3) / its.each_ms)))))::int;
END
$$;

-- When the floor had nothing, after it or the share has let retries pass.
CREATE OR REPLACE FUNCTION redrive.floor_after(retries jsonb, floor_at float8, passed bigint, now_ms bigint)
RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  its constant record := redrive.floor_of(retries);
BEGIN
  RETURN least(
    greatest(floor_at, now_ms - its.burst * its.each_ms) + passed * its.each_ms,
    now_ms + (retries -> 'windowMs')::bigint);
END
$$;

-- When a claim should ask for held retries again: `nextAsk` there.
CREATE OR REPLACE FUNCTION redrive.floor_asks_at(retries jsonb, floor_at float8, now_ms bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  its constant record := redrive.floor_of(retries);
  wait_ms constant float8 := ceil(its.burst / 2) * its.each_ms;
  at constant float8 := ceil(floor_at + wait_ms - 1e-3);
BEGIN
  RETURN least(CASE WHEN at > now_ms THEN at ELSE ceil(now_ms + wait_ms) END, now_ms - now_ms % 10000 + 10000)::bigint;
END
$$;

-- The figures of the window that ends now, of all budgets that share an allowance with this one. A step that is only partly
-- within it counts for retries alone.
CREATE OR REPLACE FUNCTION redrive.retry_figures(
  this redrive.budget, sharing bigint[], now_ms bigint, OUT first bigint, OUT retried bigint, OUT floor_at float8
) LANGUAGE plpgsql AS $$
DECLARE
  window_ms constant bigint := (this.settings::jsonb -> 'retries' -> 'windowMs')::bigint;
BEGIN
  SELECT coalesce(sum(tally.first) FILTER (WHERE tally.at > now_ms - window_ms), 0), coalesce(sum(tally.retried), 0),
    coalesce(max(tally.floor_at), 0)
  INTO first, retried, floor_at
  FROM redrive.budget_tally AS tally
  WHERE tally.budget = ANY (sharing) AND tally.at > now_ms - window_ms - redrive.bucket_ms(this) AND tally.at <= now_ms;
END
$$;

-- Makes due retries ready, as many as these budgets let through, and `most` of each at most. The row of the budget is locked,
-- or the first of those that share its allowance, so that no two claims let the same retries through; if somebody else has
-- locked it, they do it. Returns whether there may be more.
CREATE OR REPLACE FUNCTION redrive.let_retries_through(budgets bigint[], most int, now_ms bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  of_budget bigint;
  this redrive.budget;
  sharing bigint[];
  seen bigint[] := '{}';
  retries jsonb;
  figures record;
  passed int;
  has_more boolean := false;
BEGIN
  FOREACH of_budget IN ARRAY budgets LOOP
    CONTINUE WHEN of_budget = ANY (seen) OR NOT EXISTS (
      SELECT FROM redrive.waiting AS due
      WHERE due.state = redrive.state_budgeted() AND due.budget = of_budget AND due.next_at <= now_ms);
    SELECT * INTO this FROM redrive.budget WHERE id = of_budget AND has_retries;
    CONTINUE WHEN NOT FOUND;
    sharing := redrive.sharing_retries(this);
    seen := seen || sharing;
    SELECT * INTO this FROM redrive.budget WHERE id = sharing[1] AND has_retries FOR NO KEY UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    -- In a statement of its own, so that it sees what the last owner of the lock has counted.
    figures := redrive.retry_figures(this, sharing, now_ms);
    retries := this.settings::jsonb -> 'retries';
    passed := least(most, redrive.retries_left(retries, figures.first, figures.retried, figures.floor_at, now_ms));
    CONTINUE WHEN passed = 0;
    WITH let_through AS (
      UPDATE redrive.waiting SET state = redrive.waiting_state(true, alone)
      WHERE ctid = ANY (ARRAY(
        SELECT due.place FROM unnest(sharing) AS its (id) CROSS JOIN LATERAL (
          SELECT first.ctid AS place, first.task, first.next_at FROM redrive.waiting AS first
          WHERE first.state = redrive.state_budgeted() AND first.budget = its.id AND first.next_at <= now_ms
          ORDER BY first.next_at, first.task LIMIT passed FOR UPDATE SKIP LOCKED
        ) AS due
        ORDER BY due.next_at, due.task LIMIT passed
      ))
      RETURNING waiting.budget
    ), charged AS (
      INSERT INTO redrive.budget_tally (budget, at, round, ok, failed, unanswered, retried, floor_at)
      SELECT let_through.budget, now_ms - now_ms % redrive.bucket_ms(this), 0, 0, 0, 0, count(*),
        redrive.floor_after(retries, figures.floor_at, (SELECT count(*) FROM let_through), now_ms)
      FROM let_through GROUP BY 1
    )
    SELECT count(*) INTO passed FROM let_through;
    has_more := has_more OR passed = most;
  END LOOP;
  RETURN has_more;
END
$$;

-- When a claim should ask again for retries that a budget holds.
CREATE OR REPLACE FUNCTION redrive.next_ask(of_budget bigint, now_ms bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  this redrive.budget;
BEGIN
  SELECT * INTO this FROM redrive.budget WHERE id = of_budget AND has_retries;
  RETURN CASE WHEN FOUND THEN redrive.floor_asks_at(this.settings::jsonb -> 'retries',
    (redrive.retry_figures(this, redrive.sharing_retries(this), now_ms)).floor_at, now_ms) END;
END
$$;

-- When a claim should ask for retries under these budgets: when the first is due, or when a budget may let through some that
-- it holds.
CREATE OR REPLACE FUNCTION redrive.next_retry(budgets bigint[], now_ms bigint) RETURNS bigint LANGUAGE plpgsql
SET enable_sort = off AS $$
BEGIN
  IF budgets IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN (
    SELECT min(CASE WHEN first.next_at > now_ms THEN first.next_at ELSE redrive.next_ask(its.id, now_ms) END)
    FROM unnest(budgets) AS its (id) CROSS JOIN LATERAL (
      SELECT waiting.next_at FROM redrive.waiting
      WHERE waiting.state = redrive.state_budgeted() AND waiting.budget = its.id
      ORDER BY waiting.next_at, waiting.task LIMIT 1
    ) AS first
  );
END
$$;

-- How many retries a budget holds that are due, up to 10 000.
CREATE OR REPLACE FUNCTION redrive.held_retries(of_budget bigint, now_ms bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    SELECT count(*) FROM (
      SELECT FROM redrive.waiting AS due
      WHERE due.state = redrive.state_budgeted() AND due.budget = of_budget AND due.next_at <= now_ms LIMIT 10000
    ) AS held);
END
$$;

-- The counts of a retry budget, as a JSON array of {at, first, retried, floorAt}.
CREATE OR REPLACE FUNCTION redrive.retry_counts(this redrive.budget, now_ms bigint) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(json_build_object(
      'at', step.at, 'first', step.first, 'retried', step.retried, 'floorAt', step.floor_at)), '[]')
    FROM (
      SELECT tally.at, sum(tally.first) AS first, sum(tally.retried) AS retried, coalesce(max(tally.floor_at), 0) AS floor_at
      FROM redrive.budget_tally AS tally
      WHERE tally.budget = this.id AND tally.at <= now_ms
        AND tally.at > now_ms - 10000 - (this.settings::jsonb -> 'retries' -> 'windowMs')::bigint
      GROUP BY tally.at ORDER BY tally.at
    ) AS step);
END
$$;

-- Puts retries under the budgets of their lanes: those that wait under one of these budgets, and those of a kind that are not
-- due yet.
CREATE OR REPLACE FUNCTION redrive.rebudget(of_kind text, of_budgets bigint[], now_ms bigint) RETURNS void
LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  UPDATE redrive.waiting
  SET budget = its.budget, state = CASE WHEN its.budget IS NOT NULL THEN redrive.state_budgeted()
    ELSE redrive.waiting_state(its.ordered, alone) END
  FROM (
    SELECT lane.id, lane.ordered, redrive.retry_budget(lane.kind, lane.category) AS budget FROM redrive.lane
  ) AS its
  WHERE waiting.state = redrive.state_budgeted() AND waiting.budget = ANY (of_budgets) AND its.id = ANY (ARRAY[waiting.lane])
    AND its.budget IS DISTINCT FROM waiting.budget;

  UPDATE redrive.waiting SET budget = its.budget, state = redrive.state_budgeted()
  FROM (
    SELECT lane.id, redrive.retry_budget(lane.kind, lane.category) AS budget FROM redrive.lane
    WHERE lane.kind = of_kind AND NOT lane.ordered
  ) AS its
  WHERE waiting.state = redrive.state_scheduled() AND waiting.next_at > now_ms AND its.id = ANY (ARRAY[waiting.lane])
    AND its.budget IS NOT NULL
    AND EXISTS (SELECT FROM redrive.task WHERE task.id = ANY (ARRAY[waiting.task]) AND task.attempts > 0);
END
$$;
