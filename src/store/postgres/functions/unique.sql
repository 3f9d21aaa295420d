-- Unique keys: src/store/rules/unique.ts has the rules, and src/store/contract/task.ts tells what they mean.
--
-- Whoever changes what the row of a key says about a task that has not ended locks that task first, and the row after it. So
-- the end of a task, which holds the lock of the task, never waits for a row. Whether a task still has its key follows from
-- where it stands, so a claim does not look at keys at all.

-- The due time of a task that waits for its twin to end.
CREATE OR REPLACE FUNCTION redrive.queued_until() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT 8640000000000000
$$;

-- A task by its id, as the answer to one that was not added: {n, id, outcome, state, since}.
CREATE OR REPLACE FUNCTION redrive.note_of(n int, of_id text, outcome text) RETURNS json LANGUAGE sql STABLE AS $$
  SELECT json_build_object('n', n, 'id', of_id, 'outcome', outcome, 'state', there.state, 'since', there.changed_at)
  FROM (SELECT) AS always LEFT JOIN redrive.standing AS there ON there.id = of_id
$$;

-- Where the task stands that the row of a key names, and whether it still has the key (`hasKey`).
CREATE OR REPLACE FUNCTION redrive.holder_of(
  held redrive.unique_key, now_ms bigint, OUT waits boolean, OUT lives boolean, OUT begun boolean, OUT has_key boolean,
  OUT scope text
) LANGUAGE plpgsql AS $$
BEGIN
  SELECT queued.task IS NOT NULL, true, this.unique_while,
    queued.task IS NULL OR this.attempts > 0 OR this.deferrals > 0 OR this.losses > 0 OR this.has_steps
  INTO waits, lives, scope, begun
  FROM redrive.task AS this LEFT JOIN LATERAL (SELECT * FROM redrive.waiting_of(this) OFFSET 0) AS queued ON true
  WHERE this.id = held.task AND this.state = redrive.state_running();
  lives := coalesce(lives, false);
  waits := coalesce(waits, false);
  has_key := coalesce(now_ms < held.until, false) OR CASE
    WHEN held.next IS NOT NULL OR scope = 'unfinished' THEN lives
    WHEN scope = 'waiting' THEN waits AND NOT begun
    ELSE false END;
END
$$;

-- Writes the row of a key whose task does not have it any more. Returns false if somebody else was first.
CREATE OR REPLACE FUNCTION redrive.take_over(held redrive.unique_key, of_id text, of_until bigint, now_ms bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE redrive.unique_key SET task = of_id, since = now_ms, until = of_until, next = NULL, next_at = NULL
  WHERE kind = held.kind AND key = held.key AND task = held.task AND next IS NOT DISTINCT FROM held.next;
  RETURN FOUND;
END
$$;

-- Locks the tasks that the row of a key names, and then the row. Returns the place of the first one in `waiting`, if it waits;
-- NULL if the row has changed.
CREATE OR REPLACE FUNCTION redrive.lock_key(held redrive.unique_key) RETURNS tid[] LANGUAGE plpgsql /* path */ AS $$
DECLARE
  places tid[];
BEGIN
  PERFORM FROM redrive.task WHERE id = ANY (ARRAY[held.task, held.next]) ORDER BY id FOR UPDATE;
  places := redrive.lock_waiting(ARRAY[held.task]);
  PERFORM FROM redrive.unique_key AS its WHERE its.kind = held.kind AND its.key = held.key
    AND its.task = held.task AND its.next IS NOT DISTINCT FROM held.next FOR UPDATE;
  RETURN CASE WHEN FOUND THEN places END;
END
$$;

-- Postpones a task that waits, and is locked, with its row in `waiting`.
CREATE OR REPLACE FUNCTION redrive.postpone(of_id text, place tid, of_payload text, due bigint, now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE redrive.waiting SET state = redrive.waiting_state(due <= now_ms, false), next_at = due WHERE ctid = place;
  UPDATE redrive.task SET payload = of_payload, started_at = greatest(now_ms, due), next_at = due, changed_at = now_ms
  WHERE id = of_id;
END
$$;

-- What becomes of a task whose key has a row, as `meetTwin` and `takeKey` do it: `created`, `kept`, `replaced`, `postponed`
-- or `queued_after`. A task that `is_queued` is to wait for the end of the twin.
CREATE OR REPLACE FUNCTION redrive.meet_twin(
  asked redrive.unique_asked, of_id text, of_payload text, due bigint, now_ms bigint,
  OUT outcome text, OUT twin text, OUT is_queued boolean
) LANGUAGE plpgsql /* path */ AS $$
DECLARE
  of_until constant bigint := now_ms + asked.within;
  held redrive.unique_key;
  its record;
  places tid[];
  is_mine boolean;
BEGIN
  LOOP
    SELECT * INTO held FROM redrive.unique_key AS known WHERE known.kind = asked.kind AND known.key = asked.key;
    IF NOT FOUND THEN
      is_mine := redrive.add_key(asked, of_id, now_ms);
      outcome := 'created';
      EXIT WHEN is_mine;
      CONTINUE;
    END IF;
    its := redrive.holder_of(held, now_ms);
    twin := held.task;
    is_queued := false;
    IF NOT its.has_key OR NOT its.lives AND asked.conflict <> 'keep' THEN
      is_mine := redrive.take_over(held, of_id, of_until, now_ms);
      outcome := 'created';
      EXIT WHEN is_mine;
      CONTINUE;
    END IF;
    outcome := 'kept';
    -- A task that starts meanwhile would not know what this one is about. Its end makes no difference.
    EXIT WHEN asked.conflict = 'keep' AND (its.scope <> 'waiting' OR now_ms < held.until);
    EXIT WHEN asked.conflict = 'behind' AND held.next IS NOT NULL;
    places := redrive.lock_key(held);
    CONTINUE WHEN places IS NULL OR (places <> '{}') <> its.waits OR NOT (redrive.holder_of(held, now_ms)).has_key;
    EXIT WHEN asked.conflict = 'keep';
    SELECT met.outcome, met.is_queued INTO outcome, is_queued
    FROM redrive.part_with(held, its.waits, its.begun, asked, of_id, due, now_ms) AS met;
    IF outcome = 'postponed' THEN
      PERFORM redrive.postpone(twin, places[1], of_payload, least(due, held.since + asked.max_wait), now_ms);
    END IF;
    EXIT;
  END LOOP;
END
$$;

-- Writes who has a key after a conflict with a task that has not ended, and cancels those that the new one stands in for. The
-- tasks and the row are locked.
CREATE OR REPLACE FUNCTION redrive.part_with(
  held redrive.unique_key, waits boolean, begun boolean, asked redrive.unique_asked, of_id text, due bigint, now_ms bigint,
  OUT outcome text, OUT is_queued boolean
) LANGUAGE plpgsql /* path */ AS $$
DECLARE
  replaced text[];
BEGIN
  is_queued := asked.conflict = 'behind' OR NOT waits OR begun AND asked.conflict <> 'replace';
  outcome := CASE
    WHEN asked.conflict = 'replace' OR NOT is_queued AND asked.conflict = 'after' THEN 'replaced'
    WHEN is_queued THEN 'queued_after'
    ELSE 'postponed' END;
  IF outcome = 'postponed' THEN
    RETURN;
  END IF;
  replaced := array_remove(ARRAY[CASE WHEN outcome = 'replaced' THEN held.task END, held.next], NULL);
  IF is_queued THEN
    UPDATE redrive.unique_key AS its SET next = of_id, next_at = due WHERE its.kind = held.kind AND its.key = held.key;
  ELSE
    PERFORM redrive.take_over(held, of_id, now_ms + asked.within, now_ms);
  END IF;
  IF replaced <> '{}' THEN
    PERFORM redrive.cancel(replaced, asked.who, concat('replaced by ', of_id), now_ms);
  END IF;
END
$$;

-- Adds the row of a key. Returns false if there is one. Waits for a transaction that is about to add or to delete one.
CREATE OR REPLACE FUNCTION redrive.add_key(asked redrive.unique_asked, of_id text, now_ms bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO redrive.unique_key (kind, key, task, since, until)
  VALUES (asked.kind, asked.key, of_id, now_ms, now_ms + asked.within)
  ON CONFLICT DO NOTHING;
  RETURN FOUND;
END
$$;

-- Adds a task that has got its key, or is to wait for its twin to end. The twin of `enqueue_one`.
CREATE OR REPLACE FUNCTION redrive.add_unique(
  asked redrive.unique_asked, of_id text, of_lane bigint, of_priority float8, submitted bigint, due bigint, of_payload text,
  of_cost text, of_traceparent text, of_policy text, is_queued boolean, now_ms bigint
) RETURNS void LANGUAGE plpgsql /* path */ AS $$
DECLARE
  next constant bigint := CASE WHEN is_queued THEN redrive.queued_until() ELSE coalesce(due, now_ms) END;
BEGIN
  INSERT INTO redrive.task (id, lane, priority, submitted_at, started_at, changed_at, next_at, payload, cost, traceparent,
    unique_key, unique_while, policy)
  VALUES (of_id, of_lane, coalesce(of_priority, 0), coalesce(submitted, now_ms), greatest(now_ms, due), now_ms,
    coalesce(due, now_ms), of_payload, of_cost, of_traceparent, asked.key, asked.scope, of_policy)
  ON CONFLICT (id) DO NOTHING;
  IF NOT FOUND THEN
    -- Somebody has just taken the id: the whole call is made again, and finds it.
    RAISE serialization_failure USING MESSAGE = format('The id %s was taken meanwhile.', quote_literal(of_id));
  END IF;
  INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at)
  VALUES (of_id, of_lane, redrive.waiting_state(next <= now_ms, false), coalesce(of_priority, 0),
    coalesce(submitted, now_ms), next);
  INSERT INTO redrive.tally (lane, waiting) VALUES (of_lane, 1);
END
$$;

-- Adds a single task with a unique key. Returns NULL, or JSON as `enqueue_batch` does.
CREATE OR REPLACE FUNCTION redrive.enqueue_unique(
  of_kind text, of_category text, of_key text, of_id text, of_priority float8, submitted bigint, due bigint,
  of_payload text, of_cost text, of_traceparent text, unique_key text, scope text, within bigint, conflict text,
  max_wait bigint, at bigint
) RETURNS text LANGUAGE plpgsql /* verb */ SET lock_timeout = '10s' AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  asked redrive.unique_asked := ROW(of_kind, unique_key, scope, within, conflict, max_wait, 'enqueue');
  met record;
  its record;
BEGIN
  SELECT lane.id, lane.ordered INTO its FROM redrive.lane
  WHERE lane.kind = of_kind AND lane.category = of_category AND lane.key = of_key AND lane.retired IS NULL;
  IF its.ordered IS DISTINCT FROM false THEN
    RETURN redrive.enqueue_batch(json_build_object(
      'lanes', json_build_array(json_build_object('n', 1, 'kind', of_kind, 'category', of_category, 'key', of_key)),
      'ids', ARRAY[of_id], 'lane_numbers', ARRAY[1], 'priorities', ARRAY[of_priority], 'submitted', ARRAY[submitted],
      'due', ARRAY[due], 'costs', ARRAY[of_cost], 'traceparents', ARRAY[of_traceparent],
      'unique_keys', ARRAY[unique_key], 'unique_whiles', ARRAY[scope], 'withins', ARRAY[within],
      'conflicts', ARRAY[conflict], 'max_waits', ARRAY[max_wait]
    ), ARRAY[of_payload], at);
  END IF;
  IF EXISTS (SELECT FROM redrive.task WHERE id = of_id) THEN
    RETURN json_build_array(redrive.note_of(1, of_id, 'kept'))::text;
  END IF;

  met := redrive.meet_twin(asked, of_id, of_payload, coalesce(due, now_ms), now_ms);
  IF met.outcome IN ('kept', 'postponed') THEN
    RETURN json_build_array(redrive.note_of(1, met.twin, met.outcome))::text;
  END IF;
  PERFORM redrive.add_unique(asked, of_id, its.id, of_priority, submitted, due, of_payload, of_cost, of_traceparent,
    NULL, coalesce(met.is_queued, false), now_ms);
  RETURN CASE WHEN met.outcome <> 'created'
    THEN json_build_array(json_build_object('n', 1, 'id', of_id, 'outcome', met.outcome))::text END;
END
$$;

-- The unique keys that a batch asks for, row by row. `kinds` are those of its lanes.
CREATE OR REPLACE FUNCTION redrive.keys_asked(batch redrive.new_task_columns) RETURNS TABLE (
  n int, id text, asked redrive.unique_asked
) LANGUAGE sql STABLE AS $$
  SELECT row.n::int, row.id, ROW(lane.kind, row.key,
    CASE WHEN row.key IS NOT NULL THEN coalesce(row.scope, batch.unique_whiles[1]) END, row.within,
    coalesce(row.conflict, batch.conflicts[1]), row.max_wait, 'enqueue')::redrive.unique_asked
  FROM unnest(batch.ids, batch.lane_numbers, batch.unique_keys, batch.unique_whiles, batch.withins, batch.conflicts,
    batch.max_waits) WITH ORDINALITY AS row (id, lane, key, scope, within, conflict, max_wait, n)
  CROSS JOIN LATERAL (
    SELECT batch.lanes -> (coalesce(row.lane, batch.lane_numbers[1]) - 1) ->> 'kind' AS kind
  ) AS lane
$$;

-- Takes the unique keys of a batch, if nobody has any of them and no id is taken. Returns whether all are taken now. Those
-- that were free are, in any case.
CREATE OR REPLACE FUNCTION redrive.take_keys(batch redrive.new_task_columns, now_ms bigint) RETURNS boolean
LANGUAGE plpgsql /* path */ AS $$
DECLARE
  taken int;
BEGIN
  IF batch.are_new IS DISTINCT FROM true AND (
      EXISTS (SELECT FROM redrive.task WHERE id = ANY (batch.ids))
      OR (SELECT count(DISTINCT id) FROM unnest(batch.ids) AS id) < cardinality(batch.ids))
  THEN
    RETURN false;
  END IF;
  -- In the order of the keys, so that nobody deadlocks.
  INSERT INTO redrive.unique_key (kind, key, task, since, until)
  SELECT (asked).kind, (asked).key, id, now_ms, now_ms + (asked).within
  FROM redrive.keys_asked(batch) WHERE (asked).key IS NOT NULL
  ORDER BY (asked).kind, (asked).key, n
  ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS taken = ROW_COUNT;
  RETURN taken = num_nonnulls(VARIADIC batch.unique_keys);
END
$$;

-- Adds the tasks of a batch one by one, since some of their unique keys, or ids, are taken. In the order of their keys, as in
-- `take_keys`; but in their own if some have the same id, since then the first that is added gets it. Returns the same as
-- `enqueue_batch`.
CREATE OR REPLACE FUNCTION redrive.enqueue_singly(batch redrive.new_task_columns, lane_ids bigint[], now_ms bigint)
RETURNS text LANGUAGE plpgsql /* path */ AS $$
DECLARE
  has_twice constant boolean := (SELECT count(DISTINCT id) FROM unnest(batch.ids) AS id) < cardinality(batch.ids);
  notes json[] := '{}';
  its record;
  met record;
BEGIN
  FOR its IN
    SELECT *, (asked).key, EXISTS (
      SELECT FROM redrive.unique_key AS own WHERE own.kind = (asked).kind AND own.key = (asked).key AND own.task = asking.id
    ) AS has_key FROM redrive.keys_asked(batch) AS asking
    ORDER BY CASE WHEN has_twice THEN n END, (asked).kind, (asked).key NULLS FIRST, n
  LOOP
    IF EXISTS (SELECT FROM redrive.task WHERE id = its.id) THEN
      notes := notes || redrive.note_of(its.n, its.id, 'kept');
      CONTINUE;
    END IF;
    SELECT 'created' AS outcome, NULL AS twin, false AS is_queued INTO met;
    IF its.key IS NOT NULL AND NOT its.has_key THEN
      met := redrive.meet_twin(its.asked, its.id, batch.payloads[its.n], coalesce(batch.due[its.n], now_ms), now_ms);
    END IF;
    IF met.outcome IN ('kept', 'postponed') THEN
      notes := notes || redrive.note_of(its.n, met.twin, met.outcome);
      CONTINUE;
    END IF;
    PERFORM redrive.add_unique(its.asked, its.id, lane_ids[coalesce(batch.lane_numbers[its.n], batch.lane_numbers[1])],
      batch.priorities[its.n], batch.submitted[its.n], batch.due[its.n], batch.payloads[its.n], batch.costs[its.n],
      batch.traceparents[its.n], batch.policies[its.n], coalesce(met.is_queued, false), now_ms);
    IF met.outcome <> 'created' THEN
      notes := notes || json_build_object('n', its.n, 'id', its.id, 'outcome', met.outcome);
    END IF;
  END LOOP;
  RETURN CASE WHEN cardinality(notes) > 0 THEN array_to_json(notes)::text END;
END
$$;

-- Lets a task run that waited for its twin to end, and tells the workers. One that has ended meanwhile gives its key back.
CREATE OR REPLACE FUNCTION redrive.free_queued(held redrive.unique_key, now_ms bigint) RETURNS void LANGUAGE plpgsql
/* path */ AS $$
DECLARE
  its_time constant bigint := greatest(held.next_at, now_ms);
BEGIN
  UPDATE redrive.task SET started_at = its_time WHERE id = held.next AND state = redrive.state_running();
  IF NOT FOUND THEN
    DELETE FROM redrive.unique_key AS its WHERE its.kind = held.kind AND its.key = held.key;
    RETURN;
  END IF;
  UPDATE redrive.waiting SET state = redrive.waiting_state(its_time <= now_ms, alone), next_at = its_time
  WHERE task = held.next AND state = redrive.state_scheduled() AND next_at = redrive.queued_until();
  PERFORM pg_notify('redrive_' || split_part('redrive.task', '.', 1), '');
END
$$;

-- Writes the row of a key after the end of the task that has it, of the one that waits, or of both. Whoever has locked the row
-- of one that waited ends its twin, may be waiting for this task, and sees then that it has ended (`free_queued`).
CREATE OR REPLACE FUNCTION redrive.leave_key(held redrive.unique_key, ids text[], now_ms bigint) RETURNS void
LANGUAGE plpgsql /* path */ AS $$
BEGIN
  IF held.task <> ALL (ids) THEN
    UPDATE redrive.unique_key SET next = NULL, next_at = NULL WHERE ctid = ANY (ARRAY(
      SELECT its.ctid FROM redrive.unique_key AS its
      WHERE its.kind = held.kind AND its.key = held.key AND its.next = held.next FOR UPDATE SKIP LOCKED));
  ELSIF held.next = ANY (ids) THEN
    UPDATE redrive.unique_key AS its SET until = NULL, next = NULL, next_at = NULL
    WHERE its.kind = held.kind AND its.key = held.key;
  ELSE
    UPDATE redrive.unique_key AS its SET task = held.next, since = now_ms, until = NULL, next = NULL, next_at = NULL
    WHERE its.kind = held.kind AND its.key = held.key;
    PERFORM redrive.free_queued(held, now_ms);
  END IF;
END
$$;

-- Gives back the keys of tasks that have ended, and are locked: each is free, or that of the task which waited for this
-- (`releaseKey`). First those for which a task waits: it may end meanwhile, and then the key is free after all. Rows that
-- others have locked are theirs by now.
CREATE OR REPLACE FUNCTION redrive.release_keys(ids text[], now_ms bigint) RETURNS void LANGUAGE plpgsql /* path */ AS $$
DECLARE
  kinds text[];
  keys text[];
  held redrive.unique_key;
BEGIN
  IF coalesce(ids, '{}') = '{}' THEN
    RETURN;
  END IF;
  SELECT array_agg(lane.kind), array_agg(this.unique_key), array_agg(this.id) INTO kinds, keys, ids
  FROM unnest(ids) AS one (id) JOIN redrive.task AS this ON this.id = ANY (ARRAY[one.id]) AND this.unique_key IS NOT NULL
  CROSS JOIN LATERAL (SELECT its.kind FROM redrive.lane AS its WHERE its.id = this.lane OFFSET 0) AS lane;
  FOR held IN
    SELECT DISTINCT its.* FROM unnest(kinds, keys) AS one (kind, key) CROSS JOIN LATERAL (
      SELECT * FROM redrive.unique_key AS own
      WHERE own.kind = one.kind AND own.key = one.key AND own.next IS NOT NULL
        AND (own.task = ANY (ids) OR own.next = ANY (ids)) OFFSET 0
    ) AS its ORDER BY its.kind, its.key
  LOOP
    PERFORM redrive.leave_key(held, ids, now_ms);
  END LOOP;
  DELETE FROM redrive.unique_key WHERE ctid = ANY (ARRAY(
    SELECT its.ctid FROM unnest(kinds, keys, ids) AS one (kind, key, id) CROSS JOIN LATERAL (
      SELECT own.ctid FROM redrive.unique_key AS own
      WHERE own.kind = one.kind AND own.key = one.key AND own.task = one.id AND own.next IS NULL
        AND coalesce(own.until <= now_ms, true)
      OFFSET 0 FOR UPDATE SKIP LOCKED
    ) AS its));
END
$$;
