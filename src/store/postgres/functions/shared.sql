-- Limits that several lanes share: what a claim needs to pay for a start, as in src/store/rules/shared-limit.ts. Limits and
-- state are JSON with the same keys. What the pace learns from a refusal is computed there alone, after the settlement that
-- has noted it (src/store/postgres/refusals.ts). Answers are rows to be added up by then, so that no settlement waits for
-- another's.

-- The state, unless the clock was set back since: its times would not pass for long, so it is forgotten.
CREATE OR REPLACE FUNCTION redrive.present_state(state jsonb, now_ms bigint) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN CASE WHEN greatest(
    (state -> 'pace' ->> 'cutAt')::float8,
    (state -> 'answers' ->> 'at')::float8 * 1000,
    (SELECT max((level ->> 'at')::float8) FROM jsonb_each(state -> 'buckets') AS bucket (name, level))
  ) > now_ms + 1000
    THEN '{"heldUntil": 0, "buckets": {}, "answers": {"at": 0, "count": 0, "before": 0}}' ELSE state END;
END
$$;

-- How much a bucket holds at most, has now, and may be left with: a debt is at most what it gets in an hour.
CREATE OR REPLACE FUNCTION redrive.burst_of(rate jsonb) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce((rate ->> 'burst')::float8, greatest(1, (rate ->> 'perSecond')::float8))
$$;
CREATE OR REPLACE FUNCTION redrive.bucket_level(rate jsonb, level jsonb, now_ms bigint) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT least(redrive.burst_of(rate), (level ->> 'tokens')::float8
    + greatest(0, now_ms - (level ->> 'at')::float8) * (rate ->> 'perSecond')::float8 / 1000)
$$;
CREATE OR REPLACE FUNCTION redrive.bounded_level(rate jsonb, tokens float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT greatest(-3600 * (rate ->> 'perSecond')::float8, least(redrive.burst_of(rate), tokens))
$$;

-- How long it takes until so much has come, in milliseconds.
CREATE OR REPLACE FUNCTION redrive.wait_ms(missing float8, per_second float8) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT ceil(least(missing * 1000 / per_second, 1e12) - 1e-9)::bigint
$$;

-- The learned pace in starts per second; NULL if there is none.
CREATE OR REPLACE FUNCTION redrive.pace_at(state jsonb, now_ms bigint) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  known jsonb := redrive.present_state(state, now_ms);
  rate float8 := known -> 'pace' ->> 'rate';
  seconds float8 := greatest(0, now_ms - (known ->> 'heldUntil')::float8) / 1000;
BEGIN
  IF rate IS NULL OR seconds >= 55 THEN
    RETURN NULL;
  END IF;
  RETURN rate * (1 + 0.1 * power(seconds / (known -> 'pace' ->> 'step')::float8 - 1, 3));
END
$$;
CREATE OR REPLACE FUNCTION redrive.pace_level(state jsonb, pace float8, now_ms bigint) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT least(greatest(1, pace * 0.1), (state -> 'pace' ->> 'tokens')::float8
    + greatest(0, now_ms - (state -> 'pace' ->> 'at')::float8) * pace / 1000)
$$;

-- Whether a limit is as it would be made again: nothing holds it, no pace is learned, and its buckets are full.
CREATE OR REPLACE FUNCTION redrive.is_at_rest(limits jsonb, state jsonb, now_ms bigint) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  state := redrive.present_state(state, now_ms);
  RETURN (state ->> 'heldUntil')::float8 <= now_ms AND redrive.pace_at(state, now_ms) IS NULL AND NOT state ? 'refusals'
    AND NOT EXISTS (
      SELECT FROM jsonb_each(limits -> 'rates') AS bucket (name, rate)
      WHERE redrive.bucket_level(rate, state -> 'buckets' -> name, now_ms) < redrive.burst_of(rate));
END
$$;

-- The earliest time at which a task may start as far as rates and holds go. It may start now if that is not later.
CREATE OR REPLACE FUNCTION redrive.shared_opens_at(limits jsonb, state jsonb, cost jsonb, now_ms bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  opening bigint;
  pace float8;
  missing float8;
BEGIN
  state := redrive.present_state(state, now_ms);
  opening := greatest(now_ms, (state ->> 'heldUntil')::float8::bigint);
  SELECT greatest(opening, now_ms + max(redrive.wait_ms(bucket.missing, bucket.per_second))) INTO opening
  FROM (
    SELECT (rate ->> 'perSecond')::float8, least(coalesce((cost ->> name)::float8, 1), redrive.burst_of(rate))
      - coalesce(redrive.bucket_level(rate, state -> 'buckets' -> name, now_ms), redrive.burst_of(rate))
    FROM jsonb_each(limits -> 'rates') AS bucket (name, rate)
  ) AS bucket (per_second, missing)
  WHERE bucket.missing > 1e-9;
  pace := redrive.pace_at(state, opening);
  missing := 1 - redrive.pace_level(state, pace, opening);
  RETURN CASE WHEN missing > 1e-9 THEN opening + redrive.wait_ms(missing, pace) ELSE opening END;
END
$$;

-- The state after a task has started. A bucket that has less than its cost is left with a debt.
CREATE OR REPLACE FUNCTION redrive.shared_after_start(limits jsonb, state jsonb, cost jsonb, now_ms bigint) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  pace float8 := redrive.pace_at(state, now_ms);
BEGIN
  state := redrive.present_state(state, now_ms);
  state := state || jsonb_build_object('buckets', (
    SELECT coalesce(jsonb_object_agg(name, jsonb_build_object('at', now_ms, 'tokens', redrive.bounded_level(rate,
      coalesce(redrive.bucket_level(rate, state -> 'buckets' -> name, now_ms), redrive.burst_of(rate))
      - coalesce((cost ->> name)::float8, 1)))), '{}')
    FROM jsonb_each(limits -> 'rates') AS bucket (name, rate)
  ));
  IF pace IS NULL THEN
    RETURN state - 'pace';
  END IF;
  RETURN jsonb_set(state, '{pace}', state -> 'pace'
    || jsonb_build_object('tokens', redrive.pace_level(state, pace, now_ms) - 1, 'at', now_ms));
END
$$;

-- The state after an attempt took more or less than its cost.
CREATE OR REPLACE FUNCTION redrive.shared_after_use(limits jsonb, state jsonb, cost jsonb, used jsonb, now_ms bigint)
RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  state := redrive.present_state(state, now_ms);
  RETURN state || jsonb_build_object('buckets', state -> 'buckets' || (
    SELECT coalesce(jsonb_object_agg(name, jsonb_build_object('at', now_ms, 'tokens', redrive.bounded_level(rate,
      coalesce(redrive.bucket_level(rate, state -> 'buckets' -> name, now_ms), redrive.burst_of(rate))
      + coalesce((cost ->> name)::float8, 1) - (used ->> name)::float8))), '{}')
    FROM jsonb_each(limits -> 'rates') AS bucket (name, rate) WHERE used ? name
  ));
END
$$;

-- The state after the service has refused attempts, the last of them at a task until a time. The limit is held at once; from
-- the refusals that the state keeps, nothing has been learned yet.
CREATE OR REPLACE FUNCTION redrive.shared_after_refusals(
  state jsonb, refusals jsonb, task text, until bigint, now_ms bigint
) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  known jsonb := redrive.present_state(state, now_ms);
  held bigint := (known ->> 'heldUntil')::float8::bigint;
BEGIN
  RETURN jsonb_build_object('heldBefore', held) || known
    || jsonb_build_object('heldUntil', greatest(held, until), 'refusals', coalesce(known -> 'refusals', '[]') || refusals)
    || CASE WHEN until >= held THEN jsonb_build_object('heldBy', task) ELSE '{}' END;
END
$$;

-- How many more tasks of all its lanes may run at once; NULL: any number.
CREATE OR REPLACE FUNCTION redrive.shared_room(this redrive.shared_limit) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  most bigint := this.limits::jsonb -> 'concurrency';
BEGIN
  RETURN most - CASE WHEN most IS NOT NULL THEN (
    SELECT coalesce(sum(tally.running), 0)
    FROM redrive.lane AS its JOIN redrive.tally ON tally.lane = ANY (ARRAY[its.id]) WHERE its.shared = this.id) END;
END
$$;

-- How many tasks may start now under a quota, each at a cost of 1; NULL: any number, or it is no quota.
CREATE OR REPLACE FUNCTION redrive.quota_room(of_shared bigint, now_ms bigint) RETURNS float8 LANGUAGE plpgsql STABLE AS $$
DECLARE
  this redrive.shared_limit;
  state jsonb;
  pace float8;
BEGIN
  SELECT * INTO this FROM redrive.shared_limit AS its WHERE its.id = of_shared AND its.quota IS NOT NULL;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  state := redrive.present_state(this.state::jsonb, now_ms);
  pace := redrive.pace_at(state, now_ms);
  RETURN least(redrive.shared_room(this), CASE WHEN (state ->> 'heldUntil')::float8 > now_ms THEN 0
    WHEN pace IS NOT NULL THEN floor(redrive.pace_level(state, pace, now_ms) + 1e-9) END, (
    SELECT min(CASE WHEN its.spare < 0 THEN 0 ELSE floor(its.spare) + 1 END)
    FROM (
      SELECT coalesce(redrive.bucket_level(rate, state -> 'buckets' -> name, now_ms), redrive.burst_of(rate)) + 1e-9
        - least(1, redrive.burst_of(rate)) AS spare
      FROM jsonb_each(this.limits::jsonb -> 'rates') AS bucket (name, rate)
    ) AS its
  ));
END
$$;

-- Whether a limit may keep a task from starting. If not, nobody has to lock it.
CREATE OR REPLACE FUNCTION redrive.binds(this redrive.shared_limit, now_ms bigint) RETURNS boolean LANGUAGE sql AS $$
  SELECT this.limits::jsonb ?| ARRAY['concurrency', 'rates'] OR this.state::jsonb ? 'pace'
    OR (this.state::jsonb ->> 'heldUntil')::float8 > now_ms
$$;

-- Whether any limit may bind. Quotas may be many, so they are not looked at.
CREATE OR REPLACE FUNCTION redrive.is_any_binding(now_ms bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM redrive.shared_limit AS this WHERE this.quota IS NOT NULL)
    OR EXISTS (SELECT FROM redrive.shared_limit AS this WHERE this.quota IS NULL AND redrive.binds(this, now_ms));
END
$$;

-- Whether the limit of a lane is neither held nor full. Locks nothing.
CREATE OR REPLACE FUNCTION redrive.is_shared_open(of_shared bigint, now_ms bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  this redrive.shared_limit;
BEGIN
  SELECT * INTO this FROM redrive.shared_limit WHERE id = of_shared;
  RETURN (redrive.present_state(this.state::jsonb, now_ms) ->> 'heldUntil')::float8 <= now_ms
    AND coalesce(redrive.shared_room(this) > 0, true);
END
$$;

-- Whether the limit of a lane lets a task with this cost start now. Locks nothing.
CREATE OR REPLACE FUNCTION redrive.shared_allows(of_shared bigint, cost text, now_ms bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  RETURN of_shared IS NULL OR redrive.is_shared_open(of_shared, now_ms) AND (
    SELECT redrive.shared_opens_at(limits::jsonb, state::jsonb, cost::jsonb, now_ms) <= now_ms
    FROM redrive.shared_limit WHERE id = of_shared);
END
$$;

-- Pays for tasks that are to start, one after another, from the limits of their lanes. The first that a limit refuses closes
-- it, so that cheap tasks do not starve a dear one. One that somebody else has locked is closed too. `leaving` is a limit
-- in which a running task makes room. Returns which tasks are paid for, and the limits that were closed.
CREATE OR REPLACE FUNCTION redrive.pay(
  shareds bigint[], costs text[], leaving bigint, now_ms bigint,
  OUT paid boolean[], OUT closed bigint[], OUT is_contended boolean
) LANGUAGE plpgsql AS $$
DECLARE
  this redrive.shared_limit;
  known jsonb;  -- NULL: somebody else has locked the limit
  level jsonb;
  room bigint;
  opening bigint;
BEGIN
  paid := array_fill(true, ARRAY[cardinality(shareds)]);
  closed := '{}';
  is_contended := false;
  FOR this IN
    SELECT its.* FROM (SELECT DISTINCT id FROM unnest(shareds) AS id WHERE id IS NOT NULL ORDER BY id) AS named
    JOIN redrive.shared_limit AS its ON its.id = ANY (ARRAY[named.id])
  LOOP
    CONTINUE WHEN NOT redrive.binds(this, now_ms);
    known := NULL;
    SELECT its.limits, its.state INTO known, level FROM redrive.shared_limit AS its
    WHERE its.id = this.id FOR NO KEY UPDATE SKIP LOCKED;
    is_contended := is_contended OR known IS NULL;
    PERFORM redrive.fold_tally(its.id, its.id, 64) FROM redrive.lane AS its
    WHERE this.limits::jsonb ? 'concurrency' AND its.shared = this.id;
    room := coalesce(redrive.shared_room(this), 1000000) + (leaving IS NOT DISTINCT FROM this.id)::int;
    opening := NULL;
    FOR n IN 1 .. cardinality(shareds) LOOP
      CONTINUE WHEN shareds[n] IS DISTINCT FROM this.id;
      paid[n] := known IS NOT NULL AND room > 0 AND this.id <> ALL (closed);
      IF paid[n] THEN
        opening := redrive.shared_opens_at(known, level, costs[n]::jsonb, now_ms);
        paid[n] := opening <= now_ms;
      END IF;
      IF paid[n] THEN
        level := redrive.shared_after_start(known, level, costs[n]::jsonb, now_ms);
        room := room - 1;
      ELSE
        closed := closed || this.id;
      END IF;
    END LOOP;
    UPDATE redrive.shared_limit
    SET state = level::text, opens_at = CASE WHEN quota IS NOT NULL AND opening > now_ms THEN opening ELSE opens_at END
    WHERE id = this.id AND known IS NOT NULL;
  END LOOP;
END
$$;

-- Pays for waiting tasks that a claim has picked and locked. Returns those that are paid for, in the same order.
CREATE OR REPLACE FUNCTION redrive.afford(
  places tid[], now_ms bigint, OUT affordable tid[], OUT closed bigint[], OUT is_contended boolean
) LANGUAGE plpgsql AS $$
DECLARE
  shareds bigint[];
  costs text[];
  payment record;
BEGIN
  affordable := places;
  closed := '{}';
  is_contended := false;
  IF places IS NULL OR NOT redrive.is_any_binding(now_ms) THEN
    RETURN;
  END IF;
  SELECT array_agg(its.shared ORDER BY place.n), array_agg(task.cost ORDER BY place.n) INTO shareds, costs
  FROM unnest(places) WITH ORDINALITY AS place (ctid, n) JOIN redrive.waiting ON waiting.ctid = place.ctid
  CROSS JOIN LATERAL (SELECT named.shared FROM redrive.lane AS named WHERE named.id = waiting.lane OFFSET 0) AS its
  CROSS JOIN LATERAL (SELECT own.cost FROM redrive.task AS own WHERE own.id = waiting.task OFFSET 0) AS task;
  IF (SELECT count(shared) FROM unnest(shareds) AS shared) > 0 THEN
    payment := redrive.pay(shareds, costs, NULL, now_ms);
    affordable := nullif(ARRAY(
      SELECT place.ctid FROM unnest(places, payment.paid) WITH ORDINALITY AS place (ctid, is_paid, n)
      WHERE place.is_paid ORDER BY place.n), '{}');
    closed := payment.closed;
    is_contended := payment.is_contended;
  END IF;
END
$$;

-- The first ready task of each lane that shares a limit, and all of its tasks that must run alone. Steps over the index of
-- ready tasks and over the lanes of the limit in turn, so that neither its idle lanes nor other busy ones cost anything.
CREATE OR REPLACE FUNCTION redrive.shared_heads(of_shared bigint) RETURNS SETOF text LANGUAGE plpgsql
SET enable_sort = off AS $$
DECLARE
  place bigint := -9223372036854775807;
  busy bigint;
BEGIN
  WHILE place IS NOT NULL LOOP
    busy := (
      SELECT waiting.lane FROM redrive.waiting
      WHERE waiting.state = redrive.state_ready() AND waiting.lane >= place ORDER BY waiting.lane LIMIT 1
    );
    place := (
      SELECT CASE WHEN next_lane.shared = of_shared THEN next_lane.id END FROM (
        SELECT its.shared, its.id FROM redrive.lane AS its
        WHERE its.shared IS NOT NULL AND (its.shared, its.id) >= (of_shared, busy)
        ORDER BY its.shared, its.id LIMIT 1
      ) AS next_lane
    );
    CONTINUE WHEN place IS DISTINCT FROM busy OR busy IS NULL;
    RETURN NEXT (
      SELECT waiting.task FROM redrive.waiting WHERE waiting.state = redrive.state_ready() AND waiting.lane = busy
      ORDER BY waiting.priority DESC, waiting.submitted_at, waiting.task LIMIT 1
    );
    place := busy + 1;
  END LOOP;
  RETURN QUERY
    SELECT waiting.task FROM redrive.waiting
    CROSS JOIN LATERAL (SELECT named.shared FROM redrive.lane AS named WHERE named.id = waiting.lane OFFSET 0) AS its
    WHERE waiting.state = redrive.state_alone() AND its.shared = of_shared;
END
$$;

-- The earliest time at which a shared limit lets a task start that is ready and that it keeps back now. Of quotas, which may
-- be many, it is the one that was noted when they refused a task or were held, or that of a task that must run alone.
CREATE OR REPLACE FUNCTION redrive.next_shared_time(now_ms bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN least((
    SELECT its.opens_at FROM redrive.shared_limit AS its WHERE its.opens_at > 0 AND its.opens_at > now_ms
    ORDER BY its.opens_at LIMIT 1
  ), (
    SELECT min(opening.at)
    FROM redrive.waiting AS lone
    CROSS JOIN LATERAL (SELECT named.shared FROM redrive.lane AS named WHERE named.id = lone.lane OFFSET 0) AS lane
    JOIN redrive.shared_limit AS its ON its.id = ANY (ARRAY[lane.shared])
    CROSS JOIN LATERAL (
      SELECT redrive.shared_opens_at(its.limits::jsonb, its.state::jsonb, (
        SELECT task.cost::jsonb FROM redrive.task WHERE task.id = lone.task), now_ms) AS at
    ) AS opening
    WHERE lone.state = redrive.state_alone() AND its.quota IS NOT NULL AND opening.at > now_ms
  ), (
    SELECT min(opening.at)
    FROM (
      SELECT known.* FROM redrive.shared_limit AS known WHERE known.quota IS NULL AND redrive.binds(known, now_ms) OFFSET 0
    ) AS this
    CROSS JOIN LATERAL redrive.shared_heads(this.id) AS head (task)
    CROSS JOIN LATERAL (
      SELECT redrive.shared_opens_at(this.limits::jsonb, this.state::jsonb, (
        SELECT task.cost::jsonb FROM redrive.task WHERE task.id = head.task), now_ms) AS at
    ) AS opening
    WHERE opening.at > now_ms
  ));
END
$$;

-- Notes answers in lanes with a shared limit: `counts` of them in each of `lanes`.
CREATE OR REPLACE FUNCTION redrive.note_answers(lanes bigint[], counts bigint[], now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO redrive.shared_answer (shared, second, count)
  SELECT its.shared, now_ms / 1000, sum(one.count)
  FROM (
    SELECT given.lane, sum(given.count) FROM unnest(lanes, counts) AS given (lane, count) GROUP BY given.lane
  ) AS one (lane, count)
  CROSS JOIN LATERAL (SELECT named.shared FROM redrive.lane AS named WHERE named.id = one.lane OFFSET 0) AS its
  WHERE its.shared IS NOT NULL
  GROUP BY its.shared;
END
$$;

-- Adds up the answers of limits that have many rows of them. Only those of the last seconds are told apart.
CREATE OR REPLACE FUNCTION redrive.fold_answers(now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  of_shared bigint;
BEGIN
  FOR of_shared IN
    SELECT id FROM redrive.shared_limit
    WHERE EXISTS (SELECT FROM redrive.shared_answer AS answer WHERE answer.shared = shared_limit.id OFFSET 64)
    FOR UPDATE SKIP LOCKED
  LOOP
    WITH gone AS (DELETE FROM redrive.shared_answer WHERE shared = of_shared RETURNING second, count)
    INSERT INTO redrive.shared_answer (shared, second, count)
    SELECT of_shared, max(second), sum(count) FROM gone
    GROUP BY CASE WHEN second >= now_ms / 1000 - 1 THEN second END;
  END LOOP;
END
$$;

-- Notes the ends of attempts in lanes with a shared limit: answers, and refusals in their order, which hold the limit.
CREATE OR REPLACE FUNCTION redrive.note_ends(batch redrive.ended_attempt[], now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  one record;
BEGIN
  FOR one IN
    SELECT its.shared, max(run.next_at) AS until, (array_agg(run.id ORDER BY run.next_at DESC, run.n DESC))[1] AS task,
      jsonb_agg(jsonb_build_object(
        'task', run.id, 'began', coalesce(run.began, now_ms), 'until', run.next_at, 'at', now_ms) ORDER BY run.n) AS refusals
    FROM unnest(batch) AS run
    CROSS JOIN LATERAL (SELECT named.shared FROM redrive.lane AS named WHERE named.id = run.lane OFFSET 0) AS its
    WHERE run.outcome = 'deferred' AND its.shared IS NOT NULL GROUP BY its.shared ORDER BY its.shared
  LOOP
    UPDATE redrive.shared_limit
    SET state = redrive.shared_after_refusals(state::jsonb, one.refusals, one.task, one.until, now_ms)::text,
      opens_at = CASE WHEN quota IS NOT NULL THEN greatest(opens_at, one.until) ELSE opens_at END
    WHERE id = one.shared;
  END LOOP;
  PERFORM redrive.note_answers(array_agg(lane), array_agg(count), now_ms) FROM (
    SELECT lane, count(*) FROM unnest(batch) WHERE is_recorded AND outcome NOT IN ('deferred', 'cancelled', 'lost')
    GROUP BY lane
  ) AS answered HAVING count(*) > 0;
END
$$;

-- Whether there are refusals from which nothing has been learned.
CREATE OR REPLACE FUNCTION redrive.is_any_refusal() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM redrive.shared_limit WHERE quota IS NULL AND state::jsonb ? 'refusals')
    OR EXISTS (SELECT FROM redrive.shared_limit WHERE opens_at > 0 AND state::jsonb ? 'refusals');
END
$$;

-- Takes the answers of the limits that have such refusals, and locks these. Returns a JSON array of {id, state, answers},
-- where `answers` is an array of [second, count].
CREATE OR REPLACE FUNCTION redrive.take_refused() RETURNS text LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  this redrive.shared_limit;
  answers json;
  taken json[] := '{}';
BEGIN
  FOR this IN
    SELECT * FROM redrive.shared_limit
    WHERE (quota IS NULL OR opens_at > 0) AND state::jsonb ? 'refusals' ORDER BY id FOR NO KEY UPDATE
  LOOP
    WITH gone AS (DELETE FROM redrive.shared_answer WHERE shared = this.id RETURNING second, count)
    SELECT json_agg(json_build_array(second, count) ORDER BY second) INTO answers FROM gone;
    taken := taken || json_build_object('id', this.id, 'state', this.state::json, 'answers', coalesce(answers, '[]'));
  END LOOP;
  RETURN array_to_json(taken)::text;
END
$$;

-- Saves states of limits that the caller has locked: a JSON array of {id, state}.
CREATE OR REPLACE FUNCTION redrive.save_shared_states(states json) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  UPDATE redrive.shared_limit SET state = new.state::text
  FROM json_to_recordset(states) AS new (id bigint, state json) WHERE shared_limit.id = ANY (ARRAY[new.id]);
END
$$;

-- Corrects the buckets of limits by what attempts really took, given as a JSON array of {id, round, advances, used}.
CREATE OR REPLACE FUNCTION redrive.correct_uses(uses json, now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  one record;
BEGIN
  FOR one IN
    SELECT its.shared, task.cost, use.used
    FROM json_to_recordset(uses) AS use (id text, round int, advances int, used jsonb)
    JOIN redrive.task ON task.id = ANY (ARRAY[use.id]) AND task.state = redrive.state_running()
      AND task.round = use.round AND task.advances = use.advances
    CROSS JOIN LATERAL (SELECT named.shared FROM redrive.lane AS named WHERE named.id = task.lane OFFSET 0) AS its
    WHERE its.shared IS NOT NULL
    ORDER BY its.shared
  LOOP
    UPDATE redrive.shared_limit
    SET state = redrive.shared_after_use(limits::jsonb, state::jsonb, one.cost::jsonb, one.used, now_ms)::text
    WHERE id = one.shared;
  END LOOP;
END
$$;

-- The limit that exactly these lanes share, as the JSON {limits, state}, or NULL. It is locked, and so are the rules for lanes
-- of the kind, whether there is one or not.
CREATE OR REPLACE FUNCTION redrive.lock_shared(of_kind text, of_category text) RETURNS text LANGUAGE plpgsql
/* verb */ AS $$
DECLARE
  found text;
BEGIN
  PERFORM redrive.lock_lane_rules(of_kind);
  SELECT json_build_object('limits', its.limits::json, 'state', its.state::json)::text INTO found
  FROM redrive.shared_limit AS its
  WHERE its.quota IS NULL AND its.kind = of_kind AND its.category IS NOT DISTINCT FROM of_category FOR UPDATE;
  RETURN found;
END
$$;

-- Lets all lanes that match share a limit, including those that come later. The caller has locked it. The limit of a kind
-- replaces those of its categories.
CREATE OR REPLACE FUNCTION redrive.save_shared(of_kind text, of_category text, new_limits text, new_state text)
RETURNS void LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  of_shared bigint;
BEGIN
  UPDATE redrive.shared_limit AS its SET limits = new_limits, state = new_state
  WHERE its.quota IS NULL AND its.kind = of_kind AND its.category IS NOT DISTINCT FROM of_category RETURNING id INTO of_shared;
  IF NOT FOUND THEN
    INSERT INTO redrive.shared_limit (kind, category, limits, state)
    VALUES (of_kind, of_category, new_limits, new_state) RETURNING id INTO of_shared;
  END IF;
  DELETE FROM redrive.shared_limit WHERE kind = of_kind AND of_category IS NULL AND category IS NOT NULL;
  UPDATE redrive.lane SET shared = of_shared
  WHERE kind = of_kind AND (of_category IS NULL OR category = of_category) AND shared IS DISTINCT FROM of_shared
    AND NOT EXISTS (SELECT FROM redrive.shared_limit AS its WHERE its.id = lane.shared AND its.quota IS NOT NULL);
END
$$;

-- The limits of the quotas of a kind, as a JSON array of {quota, limits, state}. They are locked, and so are the rules for
-- lanes of the kind.
CREATE OR REPLACE FUNCTION redrive.lock_quotas(of_kind text) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  PERFORM redrive.lock_lane_rules(of_kind);
  PERFORM FROM redrive.shared_limit AS its WHERE its.kind = of_kind AND its.quota IS NOT NULL ORDER BY its.id FOR NO KEY UPDATE;
  RETURN (
    SELECT coalesce(json_agg(json_build_object('quota', quota, 'limits', limits::json, 'state', state::json)), '[]')::text
    FROM redrive.shared_limit WHERE kind = of_kind AND quota IS NOT NULL);
END
$$;

-- Limits each quota of a kind, also those that come later, and saves the states of those that are there, given as a JSON array
-- of {quota, state}. The caller has locked them.
CREATE OR REPLACE FUNCTION redrive.save_quotas(of_kind text, new_limits text, states json) RETURNS void LANGUAGE plpgsql
/* verb */ AS $$
BEGIN
  INSERT INTO redrive.shared_limit (kind, quota, limits, state)
  SELECT of_kind, new.quota, new_limits, new.state::text FROM json_to_recordset(states) AS new (quota text, state json)
  ON CONFLICT (quota, kind) WHERE quota IS NOT NULL
  DO UPDATE SET limits = excluded.limits, state = excluded.state, opens_at = 0;
END
$$;

-- Deletes quotas that no lane is under, of those after some place: a limit that a lane is about to join is locked by then
-- (`join_quotas`). So is their state as it would be made again.
CREATE OR REPLACE FUNCTION redrive.prune_quotas(now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  most constant int := 200;
  first_quota bigint := (SELECT min(id) FROM redrive.shared_limit WHERE quota IS NOT NULL);
  last_quota bigint := (SELECT max(id) FROM redrive.shared_limit WHERE quota IS NOT NULL);
  unused bigint[];
BEGIN
  IF first_quota IS NULL THEN
    RETURN;
  END IF;
  first_quota := CASE WHEN last_quota - first_quota < most THEN first_quota
    ELSE first_quota - most + floor(random() * (last_quota - first_quota + most))::bigint END;
  unused := ARRAY(
    SELECT its.id FROM redrive.shared_limit AS its
    WHERE its.id = ANY (ARRAY(SELECT id FROM redrive.shared_limit WHERE id >= first_quota ORDER BY id LIMIT most))
      AND its.quota > '' AND its.opens_at <= now_ms AND redrive.is_at_rest(its.limits::jsonb, its.state::jsonb, now_ms)
    FOR UPDATE SKIP LOCKED);
  -- Another statement, which sees lanes that joined until the locks were taken.
  DELETE FROM redrive.shared_limit AS its
  WHERE its.id = ANY (unused) AND NOT EXISTS (SELECT FROM redrive.lane WHERE lane.shared = its.id);
  DELETE FROM redrive.shared_answer
  WHERE shared = ANY (unused) AND NOT EXISTS (SELECT FROM redrive.shared_limit AS its WHERE its.id = shared);
END
$$;

-- Notes limits that code declares. Returns false if they are the same as the last ones for these lanes.
CREATE OR REPLACE FUNCTION redrive.declare_limits(of_lanes text, new_limits text) RETURNS boolean LANGUAGE plpgsql
/* verb */ AS $$
BEGIN
  INSERT INTO redrive.declared_limit AS known (lanes, limits) VALUES (of_lanes, new_limits)
  ON CONFLICT (lanes) DO UPDATE SET limits = excluded.limits WHERE known.limits <> excluded.limits;
  RETURN FOUND;
END
$$;
