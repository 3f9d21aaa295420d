-- Functions here are called once for a whole batch, so that each verb is one round trip and one transaction, by itself or
-- within a transaction of the caller's. Their plans are settled, not guessed: a table that was empty when a connection
-- first planned may hold millions of rows by the time it plans again, so nothing but the indexes is ever used.

-- Makes the lanes that do not exist yet, given as a JSON array of {n, kind, category, key}.
CREATE FUNCTION redrive.make_lanes(named json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM json_to_recordset(named) AS new (kind text, category text, key text)
  WHERE NOT EXISTS (
    SELECT FROM redrive.lane WHERE lane.kind = new.kind AND lane.category = new.category AND lane.key = new.key
  );
  IF NOT FOUND THEN
    RETURN;
  END IF;

  -- No rule is made between the reading of the rules and the making of the lane.
  PERFORM pg_advisory_xact_lock_shared('redrive.pause_rule'::regclass::bigint);
  INSERT INTO redrive.lane (id, kind, category, key, paused, concurrency, per_second, ordered, tokens)
  SELECT nextval('redrive.lane_id') * CASE new.key WHEN '' THEN -1 ELSE 1 END, new.kind, new.category, new.key,
    coalesce((
      SELECT rule.paused FROM redrive.pause_rule AS rule
      WHERE rule.kind = new.kind
        AND coalesce(rule.category = new.category, true)
        AND coalesce(rule.key = new.key, true)
      ORDER BY rule.id DESC LIMIT 1
    ), false),
    limits.concurrency, limits.per_second, coalesce(limits.ordered, false), greatest(1, limits.per_second)
  FROM json_to_recordset(named) AS new (kind text, category text, key text)
  LEFT JOIN LATERAL (
    SELECT rule.concurrency, rule.per_second, rule.ordered FROM redrive.limit_rule AS rule
    WHERE rule.kind = new.kind
      AND coalesce(rule.category = new.category, true)
      AND coalesce(rule.key = new.key, true)
    ORDER BY rule.id DESC LIMIT 1
  ) AS limits ON true
  ORDER BY new.kind, new.category, new.key
  ON CONFLICT DO NOTHING;
END
$$;

-- The last that waits in a lane, or has started.
CREATE FUNCTION redrive.last_place(of_lane bigint, of_priority float8) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT greatest(
    (SELECT max(submitted_at) FROM redrive.waiting WHERE state = 1 AND lane = of_lane AND priority = of_priority),
    (SELECT last_place FROM redrive.lane WHERE id = of_lane)
  )
$$;

-- Adds tasks, given column by column, where `lane_numbers` are the `n` of their lanes; the first of them stands for all that
-- are absent. Those with a round were tried elsewhere: they do not wait until what they came to is applied. Returns the ids
-- of those that are new as a JSON array, or NULL if all are.
CREATE FUNCTION redrive.enqueue(
  lanes json, ids text[], lane_numbers int[], priorities float8[], submitted bigint[], due bigint[], payloads text[],
  rounds int[], tried_for bigint[], tried json, at bigint
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  lane_ids bigint[];
  ordered boolean[];
  answer text;
BEGIN
  PERFORM redrive.make_lanes(lanes);
  SELECT array_agg(lane.id ORDER BY new.n), array_agg(lane.ordered ORDER BY new.n) INTO lane_ids, ordered
  FROM json_to_recordset(lanes) AS new (n int, kind text, category text, key text)
  JOIN redrive.lane ON lane.kind = new.kind AND lane.category = new.category AND lane.key = new.key;

  WITH added AS (
    INSERT INTO redrive.task (id, lane, round, priority, submitted_at, started_at, changed_at, next_at, payload)
    SELECT new.id, lane_ids[coalesce(new.lane, lane_numbers[1])],
      coalesce(new.round, redrive.first_round()),
      coalesce(new.priority, 0),
      -- In an ordered lane, after all that are there: clocks may go back, and many come in one millisecond.
      coalesce(new.submitted_at, greatest(now_ms, CASE WHEN ordered[coalesce(new.lane, lane_numbers[1])] THEN
        redrive.last_place(lane_ids[coalesce(new.lane, lane_numbers[1])], coalesce(new.priority, 0)) + 1 END)),
      now_ms - coalesce(new.tried_for, 0), now_ms, CASE WHEN new.round IS NULL THEN coalesce(new.due, now_ms) END,
      new.payload
    FROM unnest(ids, lane_numbers, priorities, submitted, due, payloads, rounds, tried_for)
      AS new (id, lane, priority, submitted_at, due, payload, round, tried_for)
    ON CONFLICT (id) DO NOTHING
    RETURNING id, lane, priority, submitted_at, next_at
  ), queued AS (
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at)
    SELECT id, lane, CASE WHEN next_at > now_ms THEN 0 ELSE 1 END, priority, submitted_at, next_at
    FROM added WHERE next_at IS NOT NULL
  ), counted AS (
    INSERT INTO redrive.tally (lane, waiting, running)
    SELECT lane, count(next_at), count(*) - count(next_at) FROM added GROUP BY lane
  )
  SELECT CASE WHEN count(*) < cardinality(ids) THEN coalesce(json_agg(id), '[]')::text END INTO answer FROM added;
  IF tried IS NOT NULL THEN
    PERFORM redrive.apply(tried, now_ms);
  END IF;
  RETURN answer;
END
$$;
