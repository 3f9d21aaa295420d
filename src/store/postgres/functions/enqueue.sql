-- Puts lanes under their quotas, given as a JSON array of {kind, category, key, quota}. A quota that is deleted meanwhile is
-- made again.
CREATE OR REPLACE FUNCTION redrive.join_quotas(named json) RETURNS void LANGUAGE plpgsql /* path */ AS $$
DECLARE
  wanted bigint := (
    SELECT count(DISTINCT (new.kind, new.quota)) FROM json_to_recordset(named) AS new (kind text, quota text)
    WHERE new.quota IS NOT NULL);
  found bigint := 0;
BEGIN
  IF wanted = 0 THEN
    RETURN;
  END IF;
  WHILE found < wanted LOOP
    INSERT INTO redrive.shared_limit (kind, quota, limits, state)
    SELECT missing.kind, missing.quota, coalesce(
        (SELECT its.limits FROM redrive.shared_limit AS its WHERE its.kind = missing.kind AND its.quota = ''),
        '{"isShared":true,"isPerQuota":true}'),
      '{"heldUntil":0,"buckets":{},"answers":{"at":0,"count":0,"before":0}}'
    FROM (
      SELECT DISTINCT new.kind, new.quota FROM json_to_recordset(named) AS new (kind text, quota text)
      WHERE new.quota IS NOT NULL ORDER BY new.kind, new.quota
    ) AS missing
    ON CONFLICT DO NOTHING;
    PERFORM FROM (
      SELECT DISTINCT new.kind, new.quota FROM json_to_recordset(named) AS new (kind text, quota text)
    ) AS new
    CROSS JOIN LATERAL (
      SELECT its.id FROM redrive.shared_limit AS its WHERE its.kind = new.kind AND its.quota = new.quota FOR KEY SHARE
    ) AS locked;
    GET DIAGNOSTICS found = ROW_COUNT;
  END LOOP;
  UPDATE redrive.lane SET shared = joining.shared
  FROM json_to_recordset(named) AS new (kind text, category text, key text, quota text)
  CROSS JOIN LATERAL (
    SELECT its.id, quota.id AS shared FROM redrive.lane AS its CROSS JOIN LATERAL (
      SELECT named.id FROM redrive.shared_limit AS named WHERE named.kind = new.kind AND named.quota = new.quota OFFSET 0
    ) AS quota
    WHERE its.kind = new.kind AND its.category = new.category AND its.key = new.key AND its.shared IS DISTINCT FROM quota.id
    OFFSET 0
  ) AS joining
  WHERE lane.id = ANY (ARRAY[joining.id]);
END
$$;

-- Creates the lanes that do not exist yet, given as a JSON array of {kind, category, key, quota}, and puts them under their
-- quotas.
CREATE OR REPLACE FUNCTION redrive.make_lanes(named json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM json_to_recordset(named) AS new (kind text, category text, key text, quota text)
  WHERE (
    SELECT lane.id FROM redrive.lane
    WHERE lane.kind = new.kind AND lane.category = new.category AND lane.key = new.key AND lane.retired IS NULL
      AND (new.quota IS NULL OR redrive.has_quota(lane.shared, new.quota))
  ) IS NULL;
  IF NOT FOUND THEN
    RETURN;
  END IF;

  -- A lane that is deleted meanwhile is made again.
  UPDATE redrive.lane SET retired = NULL, retired_by = NULL
  WHERE id = ANY (ARRAY(
    SELECT its.id FROM json_to_recordset(named) AS new (kind text, category text, key text)
    CROSS JOIN LATERAL (
      SELECT lane.id FROM redrive.lane
      WHERE lane.kind = new.kind AND lane.category = new.category AND lane.key = new.key AND lane.retired IS NOT NULL
      OFFSET 0
    ) AS its ORDER BY its.id
  ));

  -- No rule may appear between reading the rules and creating the lane.
  PERFORM pg_advisory_xact_lock_shared('redrive.pause_rule'::regclass::oid::int, hashtext(lane_kind.name))
  FROM (SELECT DISTINCT kind FROM json_to_recordset(named) AS new (kind text) ORDER BY kind) AS lane_kind (name);
  INSERT INTO redrive.lane (id, kind, category, key, paused, concurrency, per_second, ordered, blocking, tokens, shared)
  SELECT redrive.new_lane_id(new.kind, new.key), new.kind, new.category, new.key,
    coalesce((
      SELECT rule.paused FROM redrive.pause_rule AS rule
      WHERE rule.kind = new.kind
        AND coalesce(rule.category = new.category, true)
        AND coalesce(rule.key = new.key, true)
      ORDER BY rule.id DESC LIMIT 1
    ), false),
    limits.concurrency, limits.per_second, coalesce(limits.ordered, false), coalesce(limits.blocking, false),
    greatest(1, limits.per_second),
    redrive.shared_of(new.kind, new.category)
  FROM json_to_recordset(named) AS new (kind text, category text, key text)
  LEFT JOIN LATERAL (
    SELECT rule.concurrency, rule.per_second, rule.ordered, rule.blocking FROM redrive.limit_rule AS rule
    WHERE rule.kind = new.kind
      AND coalesce(rule.category = new.category, true)
      AND coalesce(rule.key = new.key, true)
    ORDER BY rule.id DESC LIMIT 1
  ) AS limits ON true
  ORDER BY new.kind, new.category, new.key
  ON CONFLICT DO NOTHING;
  PERFORM redrive.join_quotas(named);
END
$$;

-- Whether a shared limit is that of a quota.
CREATE OR REPLACE FUNCTION redrive.has_quota(of_shared bigint, of_quota text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM redrive.shared_limit AS its WHERE its.id = of_shared AND its.quota = of_quota);
END
$$;

-- The shared limit of a new lane.
CREATE OR REPLACE FUNCTION redrive.shared_of(of_kind text, of_category text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT max(id) FROM redrive.shared_limit
  WHERE quota IS NULL AND kind = of_kind AND coalesce(category = of_category, true)
$$;

-- The place of the last task in an ordered lane, whether it waits or has started.
CREATE OR REPLACE FUNCTION redrive.last_place(of_lane bigint, of_priority float8) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT greatest(
    (
      SELECT max(submitted_at) FROM redrive.waiting
      WHERE state = redrive.state_ready() AND lane = of_lane AND priority = of_priority
    ),
    (SELECT last_place FROM redrive.lane WHERE id = of_lane)
  )
$$;

-- The times that order new tasks in their lanes, at least one of which is ordered. There, a task that brings no time comes
-- after all that are there and all that were given before it: clocks may go back, and many tasks come in one millisecond.
CREATE OR REPLACE FUNCTION redrive.in_order(
  batch redrive.new_task_columns, lane_ids bigint[], ordered boolean[], now_ms bigint
) RETURNS bigint[] LANGUAGE sql STABLE AS $$
  SELECT array_agg(coalesce(given, CASE WHEN ordered[lane] THEN
    greatest(now_ms, redrive.last_place(lane_ids[lane], priority) + 1, given_before + 1) + timeless - 1
  END, now_ms) ORDER BY n)
  FROM (
    SELECT *, max(given) OVER so_far AS given_before, count(*) FILTER (WHERE given IS NULL) OVER so_far AS timeless
    FROM (
      SELECT n, batch.submitted[n] AS given, coalesce(batch.lane_numbers[n], batch.lane_numbers[1]) AS lane,
        coalesce(batch.priorities[n], 0) AS priority
      FROM generate_subscripts(batch.ids, 1) AS n
    ) AS new
    WINDOW so_far AS (PARTITION BY lane, priority ORDER BY n)
  ) AS placed
$$;

-- A random round for a new task.
CREATE OR REPLACE FUNCTION redrive.first_round() RETURNS int LANGUAGE sql VOLATILE AS $$
  SELECT floor(random() * 1000000000)::int
$$;

-- Adds tasks whose ids cannot be taken, to lanes that are not ordered. Without a check for conflicts, and with a statement
-- for each table, a row costs a third less.
CREATE OR REPLACE FUNCTION redrive.add_new(
  batch redrive.new_task_columns, lane_ids bigint[], now_ms bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO redrive.task (id, lane, priority, submitted_at, started_at, changed_at, next_at, payload, cost, traceparent,
    unique_key, unique_while, policy)
  SELECT new.id, lane_ids[coalesce(new.lane, batch.lane_numbers[1])], coalesce(new.priority, 0), now_ms,
    greatest(now_ms, new.due), now_ms, coalesce(new.due, now_ms), new.payload, new.cost, new.traceparent, new.key,
    CASE WHEN new.key IS NOT NULL THEN coalesce(new.scope, batch.unique_whiles[1]) END, new.policy
  FROM unnest(batch.ids, batch.lane_numbers, batch.priorities, batch.due, batch.payloads, batch.costs, batch.traceparents,
    batch.unique_keys, batch.unique_whiles, batch.policies)
    AS new (id, lane, priority, due, payload, cost, traceparent, key, scope, policy);

  INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at)
  SELECT new.id, lane_ids[coalesce(new.lane, batch.lane_numbers[1])],
    redrive.waiting_state(coalesce(new.due <= now_ms, true), false), coalesce(new.priority, 0), now_ms,
    coalesce(new.due, now_ms)
  FROM unnest(batch.ids, batch.lane_numbers, batch.priorities, batch.due) AS new (id, lane, priority, due);

  IF cardinality(lane_ids) = 1 THEN
    INSERT INTO redrive.tally (lane, waiting) VALUES (lane_ids[1], cardinality(batch.ids));
  ELSE
    INSERT INTO redrive.tally (lane, waiting)
    SELECT lane_ids[number], count(*) FROM unnest(batch.lane_numbers) AS number GROUP BY number;
  END IF;
END
$$;

-- Adds tasks. Those whose ids are taken change nothing. Returns the ids of the others.
CREATE OR REPLACE FUNCTION redrive.add_tasks(
  batch redrive.new_task_columns, lane_ids bigint[], now_ms bigint
) RETURNS text[] LANGUAGE plpgsql /* path */ AS $$
DECLARE
  added text[];
BEGIN
  WITH added_task AS (
    INSERT INTO redrive.task (id, lane, round, priority, submitted_at, started_at, changed_at, next_at, payload,
      cost, traceparent, unique_key, unique_while, policy)
    SELECT new.id, lane_ids[coalesce(new.lane, batch.lane_numbers[1])],
      coalesce(new.round, redrive.first_round()),
      coalesce(new.priority, 0),
      coalesce(new.submitted_at, now_ms),
      greatest(now_ms, new.due) - coalesce(new.tried_for, 0), now_ms,
      CASE WHEN new.round IS NULL THEN coalesce(new.due, now_ms) END, new.payload, new.cost, new.traceparent, new.key,
      CASE WHEN new.key IS NOT NULL THEN coalesce(new.scope, batch.unique_whiles[1]) END, new.policy
    FROM unnest(batch.ids, batch.lane_numbers, batch.priorities, batch.submitted, batch.due, batch.payloads, batch.costs,
      batch.traceparents, batch.rounds, batch.tried_for, batch.unique_keys, batch.unique_whiles,
      batch.policies)
      AS new (id, lane, priority, submitted_at, due, payload, cost, traceparent, round, tried_for, key, scope, policy)
    ON CONFLICT (id) DO NOTHING
    RETURNING id, lane, priority, submitted_at, next_at
  ), queued AS (
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at)
    SELECT id, lane, redrive.waiting_state(next_at <= now_ms, false), priority, submitted_at, next_at
    FROM added_task WHERE next_at IS NOT NULL
  ), tallied AS (
    INSERT INTO redrive.tally (lane, waiting, running)
    SELECT lane, count(next_at), count(*) - count(next_at) FROM added_task GROUP BY lane
  )
  SELECT coalesce(array_agg(id), '{}') INTO added FROM added_task;
  RETURN added;
END
$$;

-- The answer for the tasks of a batch that were not added, since their ids are taken: those of earlier tasks, or, of tasks
-- with the same id, that of the first.
CREATE OR REPLACE FUNCTION redrive.notes_of_taken(ids text[], added text[]) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT json_agg(redrive.note_of(one.n::int, one.id, 'kept'))::text
  FROM (
    SELECT id, n, row_number() OVER (PARTITION BY id ORDER BY n) AS turn
    FROM unnest(ids) WITH ORDINALITY AS given (id, n)
  ) AS one
  WHERE one.turn > 1 OR one.id <> ALL (added)
$$;

-- Adds tasks, given as JSON of `redrive.new_task_columns`, save for one column: payloads may be long, and JSON takes a third
-- more to read them. Returns NULL if all were created, and otherwise tells what became of the others, by their positions: a
-- JSON array of {n, id, outcome, state, since}. The last two are those of a task that was there.
CREATE OR REPLACE FUNCTION redrive.enqueue_batch(columns json, payloads text[], at bigint) RETURNS text
LANGUAGE plpgsql /* verb */ SET lock_timeout = '10s' AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  batch redrive.new_task_columns := json_populate_record(NULL::redrive.new_task_columns, columns);
  lane_ids bigint[];
  ordered boolean[];
  has_keys boolean;
  added text[];
BEGIN
  batch.payloads := payloads;
  PERFORM redrive.make_lanes(batch.lanes);
  SELECT array_agg(lane.id ORDER BY new.n), array_agg(lane.ordered ORDER BY new.n) INTO lane_ids, ordered
  FROM json_to_recordset(batch.lanes) AS new (n int, kind text, category text, key text)
  CROSS JOIN LATERAL (
    SELECT its.id, its.ordered FROM redrive.lane AS its
    WHERE its.kind = new.kind AND its.category = new.category AND its.key = new.key
    OFFSET 0
  ) AS lane;
  IF true = ANY (ordered) THEN
    batch.submitted := redrive.in_order(batch, lane_ids, ordered, now_ms);
  END IF;
  IF batch.unique_keys IS NOT NULL THEN
    has_keys := redrive.take_keys(batch, now_ms);
    IF NOT has_keys THEN
      RETURN redrive.enqueue_singly(batch, lane_ids, now_ms);
    END IF;
  END IF;
  IF batch.are_new AND true <> ALL (ordered) THEN
    PERFORM redrive.add_new(batch, lane_ids, now_ms);
    RETURN NULL;
  END IF;

  added := redrive.add_tasks(batch, lane_ids, now_ms);
  IF batch.tried IS NOT NULL THEN
    PERFORM redrive.settle_outcomes(batch.tried, now_ms);
    PERFORM redrive.advance_tried(batch.tried, now_ms);
  END IF;
  IF cardinality(added) = cardinality(batch.ids) THEN
    RETURN NULL;
  END IF;
  IF batch.unique_keys IS NOT NULL THEN
    -- Somebody has just taken an id: the whole call is made again, and finds it.
    RAISE serialization_failure USING MESSAGE = 'An id was taken meanwhile.';
  END IF;
  RETURN redrive.notes_of_taken(batch.ids, added);
END
$$;

-- Adds a single task. In a statement for each table, with plain values, it costs half of what `enqueue_batch` takes for it.
-- Returns NULL, or JSON as `enqueue_batch` does if its id is taken.
CREATE OR REPLACE FUNCTION redrive.enqueue_one(
  of_kind text, of_category text, of_key text, of_id text, of_priority float8, submitted bigint, due bigint,
  of_payload text, of_cost text, of_traceparent text, at bigint
) RETURNS text LANGUAGE plpgsql /* verb */ SET lock_timeout = '10s' AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  its record;
BEGIN
  SELECT lane.id, lane.ordered INTO its FROM redrive.lane
  WHERE lane.kind = of_kind AND lane.category = of_category AND lane.key = of_key AND lane.retired IS NULL;
  IF its.ordered IS DISTINCT FROM false THEN
    RETURN redrive.enqueue_batch(json_build_object(
      'lanes', json_build_array(json_build_object('n', 1, 'kind', of_kind, 'category', of_category, 'key', of_key)),
      'ids', ARRAY[of_id], 'lane_numbers', ARRAY[1], 'priorities', ARRAY[of_priority], 'submitted', ARRAY[submitted],
      'due', ARRAY[due], 'costs', ARRAY[of_cost], 'traceparents', ARRAY[of_traceparent]
    ), ARRAY[of_payload], at);
  END IF;

  INSERT INTO redrive.task (id, lane, priority, submitted_at, started_at, changed_at, next_at, payload, cost, traceparent)
  VALUES (of_id, its.id, coalesce(of_priority, 0), coalesce(submitted, now_ms), greatest(now_ms, due), now_ms,
    coalesce(due, now_ms), of_payload, of_cost, of_traceparent)
  ON CONFLICT (id) DO NOTHING;
  IF NOT FOUND THEN
    RETURN json_build_array(redrive.note_of(1, of_id, 'kept'))::text;
  END IF;
  INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at)
  VALUES (of_id, its.id, redrive.waiting_state(coalesce(due <= now_ms, true), false), coalesce(of_priority, 0),
    coalesce(submitted, now_ms), coalesce(due, now_ms));
  INSERT INTO redrive.tally (lane, waiting) VALUES (its.id, 1);
  RETURN NULL;
END
$$;
