-- Cost budgets. The rules are those of src/store/rules/budgets/cost-gate.ts.

-- What attempts have spent, in the present window of a budget and in the one before: a JSON array of {at, attempts, used}.
CREATE OR REPLACE FUNCTION redrive.spent_windows(this redrive.budget, now_ms bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  window_ms constant bigint := (this.settings::jsonb #>> '{cost,windowMs}')::bigint;
BEGIN
  RETURN (
    SELECT coalesce(jsonb_agg(jsonb_build_object('at', its.at, 'attempts', its.attempts, 'used', its.used)), '[]')
    FROM (
      SELECT part.at, sum(part.attempts) AS attempts,
        coalesce(jsonb_object_agg(part.bucket, part.amount) FILTER (WHERE part.bucket IS NOT NULL), '{}') AS used
      FROM (
        SELECT own.at, own.bucket, sum(own.amount) AS amount, sum(own.attempts) AS attempts FROM redrive.budget_cost AS own
        WHERE own.budget = this.id AND own.at >= now_ms - now_ms % window_ms - window_ms GROUP BY own.at, own.bucket
      ) AS part
      GROUP BY part.at
    ) AS its
  );
END
$$;

-- How many tasks may run at once from now on: `used` within this window, and the mean of `attempts` that have spent `recent`.
CREATE OR REPLACE FUNCTION redrive.cost_room(amounts jsonb, used jsonb, attempts bigint, recent jsonb) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
  SELECT min(CASE
    WHEN own.room <= 0 THEN 0
    WHEN attempts = 0 THEN 1
    WHEN own.mean * 1e6 <= own.room THEN 1e6
    ELSE floor(own.room / own.mean) END)::int
  FROM (
    SELECT one.value::float8 - coalesce((used ->> one.key)::float8, 0) AS room,
      coalesce((recent ->> one.key)::float8, 0) / nullif(attempts, 0) AS mean
    FROM jsonb_each_text(amounts) AS one
  ) AS own
$$;

-- How many tasks may run at once under a budget from now on.
CREATE OR REPLACE FUNCTION redrive.cost_room_of(this redrive.budget, now_ms bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  cost constant jsonb := this.settings::jsonb -> 'cost';
  start constant bigint := now_ms - now_ms % (cost ->> 'windowMs')::bigint;
BEGIN
  RETURN (
    SELECT redrive.cost_room(cost -> 'amounts', coalesce(jsonb_object_agg(one.bucket, one.used) FILTER (
        WHERE one.bucket IS NOT NULL), '{}'), coalesce(sum(one.attempts)::bigint, 0), coalesce(jsonb_object_agg(
        one.bucket, one.recent) FILTER (WHERE one.bucket IS NOT NULL), '{}'))
    FROM (
      SELECT own.bucket, coalesce(sum(own.amount) FILTER (WHERE own.at = start), 0) AS used, sum(own.amount) AS recent,
        sum(own.attempts) AS attempts
      FROM redrive.budget_cost AS own
      WHERE own.budget = this.id AND own.at >= start - (cost ->> 'windowMs')::bigint GROUP BY own.bucket
    ) AS one
  );
END
$$;

-- How many tasks that a budget covers are running.
CREATE OR REPLACE FUNCTION redrive.running_under(this redrive.budget) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    SELECT coalesce(sum(tally.running), 0) FROM redrive.lane AS its JOIN redrive.tally ON tally.lane = ANY (ARRAY[its.id])
    WHERE its.kind = this.kind AND (this.category IS NULL OR its.category = this.category));
END
$$;

-- A cost budget as a claim goes by it; NULL if it is far from being spent. Near its end, the row is locked, so that no two
-- claims take the same room; if another claim has it, nothing may start for a moment.
CREATE OR REPLACE FUNCTION redrive.cost_gate(this redrive.budget, now_ms bigint) RETURNS redrive.gate LANGUAGE plpgsql AS $$
DECLARE
  window_ms constant bigint := (this.settings::jsonb #>> '{cost,windowMs}')::bigint;
  allowed bigint := redrive.cost_room_of(this, now_ms) - redrive.running_under(this);
BEGIN
  -- Claims that come together take less.
  IF allowed >= 10000 THEN
    RETURN NULL;
  ELSIF allowed > 0 THEN
    PERFORM FROM redrive.budget WHERE id = this.id FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      RETURN ROW(NULL, this.kind, this.category, 0, 0, now_ms + 5)::redrive.gate;
    END IF;
    -- Another claim may have started tasks until the row was locked.
    allowed := redrive.cost_room_of(this, now_ms) - redrive.running_under(this);
  END IF;
  RETURN ROW(
    NULL, this.kind, this.category, greatest(0, allowed), 0, now_ms - now_ms % window_ms + window_ms)::redrive.gate;
END
$$;

-- Whether budgets keep all tasks of a kind and category back: a gate is open, or a cost budget has no room for an attempt.
CREATE OR REPLACE FUNCTION redrive.is_held_back(of_kind text, of_category text, now_ms bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM redrive.budget
    WHERE budget.kind = of_kind AND (budget.category IS NULL OR budget.category = of_category)
      AND (budget.is_open OR CASE WHEN budget.has_costs THEN redrive.cost_room_of(budget, now_ms) = 0 END));
END
$$;

-- Adds up what budgets have counted of costs, and forgets the windows that count no more.
CREATE OR REPLACE FUNCTION redrive.fold_budget_costs(now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  this redrive.budget;
  window_ms bigint;
BEGIN
  FOR this IN SELECT * FROM redrive.budget WHERE has_costs LOOP
    window_ms := (this.settings::jsonb #>> '{cost,windowMs}')::bigint;
    DELETE FROM redrive.budget_cost WHERE budget = this.id AND at < now_ms - now_ms % window_ms - window_ms;
    CONTINUE WHEN (SELECT count(*) < 64 FROM redrive.budget_cost WHERE budget = this.id);
    WITH folded_row AS (
      DELETE FROM redrive.budget_cost WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM redrive.budget_cost WHERE budget = this.id FOR UPDATE SKIP LOCKED
      ))
      RETURNING *
    )
    INSERT INTO redrive.budget_cost (budget, at, bucket, amount, attempts)
    SELECT budget, at, bucket, sum(amount), sum(attempts) FROM folded_row GROUP BY budget, at, bucket;
  END LOOP;
END
$$;
