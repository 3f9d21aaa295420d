-- A page of what ended in a state, the newest first, from before the end of the last page. NULL matches all. Walks back in
-- time, however much there is: nothing is sorted but what ended at the same time.
CREATE FUNCTION redrive.ended_page(
  of_state int, of_kind text, of_category text, of_key text, of_error text, before bigint, before_id text, up_to bigint
) RETURNS SETOF redrive.task LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_sort = off SET jit = off AS $$
BEGIN
  RETURN QUERY SELECT task.* FROM redrive.ended CROSS JOIN unnest(ended.tasks) AS one (id)
  JOIN redrive.task ON task.id = one.id AND task.state = ended.state AND task.changed_at = ended.at
  JOIN redrive.lane ON lane.id = task.lane
  WHERE ended.state = of_state AND ended.at <= coalesce(before, 9223372036854775807)
    AND coalesce((ended.at, one.id) < (before, before_id), true)
    AND (of_kind IS NULL OR lane.kind = of_kind)
    AND (of_category IS NULL OR lane.category = of_category)
    AND (of_key IS NULL OR lane.key = of_key)
    -- A success, or a skip, has cleared the error.
    AND (of_error IS NULL OR of_state > 5)
    AND (of_error IS NULL OR task.error_code = of_error)
  ORDER BY ended.at DESC, one.id DESC
  LIMIT up_to;
END
$$;

-- Gives dead tasks fresh attempts, on record. Returns the ids of those it moved, as a JSON array.
CREATE FUNCTION redrive.redrive(ids text[], who text, why text, at bigint) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  moved text;
  times bigint[];
BEGIN
  WITH dead AS MATERIALIZED (
    SELECT id, lane, entries, losses, priority, submitted_at, changed_at
    FROM redrive.task WHERE id = ANY (ids) AND state = 6 ORDER BY id FOR UPDATE
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason)
    SELECT id, entries + 1, 0, now_ms, now_ms, who, 'redriven', why FROM dead
  ), counted AS (
    INSERT INTO redrive.tally (lane, dead, waiting) SELECT lane, -count(*), count(*) FROM dead GROUP BY lane
  ), queued AS (
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at, alone)
    SELECT id, lane, CASE losses WHEN 0 THEN 1 ELSE 2 END, priority, submitted_at, now_ms, losses > 0 FROM dead
  ), unlisted AS (
    UPDATE redrive.ended SET tasks = ARRAY(
      SELECT id FROM unnest(tasks) AS id WHERE id NOT IN (SELECT dead.id FROM dead)
    )
    WHERE ended.state = 6 AND ended.at IN (SELECT dead.changed_at FROM dead)
  ), written AS (
    UPDATE redrive.task
    SET state = 3, round = round + 1, started_at = now_ms, changed_at = now_ms, entries = entries + 1,
      attempts = 0, deferrals = 0, undecided = false, previous_delay = NULL, error_class = NULL, error_code = NULL,
      error_message = NULL, reason = NULL
    WHERE id IN (SELECT dead.id FROM dead)
    RETURNING id
  )
  SELECT coalesce(json_agg(id), '[]')::text, (SELECT array_agg(DISTINCT changed_at) FROM dead) INTO moved, times
  FROM written;
  DELETE FROM redrive.ended WHERE ended.state = 6 AND ended.at = ANY (times) AND tasks = '{}';
  RETURN moved;
END
$$;

-- Ends waiting tasks and marks running ones. Returns the ids of those that will end or have ended, as a JSON array.
CREATE FUNCTION redrive.cancel(ids text[], at bigint) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  cancelled text;
BEGIN
  -- Locked first: what one of them came to just now is on record before its place is looked at.
  ids := ARRAY(SELECT id FROM redrive.task WHERE id = ANY (ids) AND state = 3 ORDER BY id FOR UPDATE);
  WITH freed AS (
    DELETE FROM redrive.waiting WHERE task = ANY (ids) RETURNING task, lane
  ), counted AS (
    INSERT INTO redrive.tally (lane, waiting, cancelled) SELECT lane, -count(*), count(*) FROM freed GROUP BY lane
  ), listed AS (
    INSERT INTO redrive.ended (state, at, tasks) SELECT 7, now_ms, array_agg(task) FROM freed HAVING count(*) > 0
  ), written AS (
    UPDATE redrive.task
    SET state = CASE WHEN is_free THEN 7 ELSE 3 END,
      round = CASE WHEN is_free THEN round + 1 ELSE round END,
      changed_at = CASE WHEN is_free THEN now_ms ELSE changed_at END,
      cancel_requested = NOT is_free
    FROM (SELECT id, id IN (SELECT freed.task FROM freed) AS is_free FROM unnest(ids) AS id) AS living
    WHERE task.id = living.id
    RETURNING task.id
  )
  SELECT coalesce(json_agg(id), '[]')::text INTO cancelled FROM written;
  RETURN cancelled;
END
$$;

-- Pauses or resumes the lanes that match, those that come later included. NULL matches all.
CREATE FUNCTION redrive.pause(of_kind text, of_category text, of_key text, is_paused boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('redrive.pause_rule'::regclass::bigint);
  -- What the new rule covers has been overruled.
  DELETE FROM redrive.pause_rule
  WHERE kind = of_kind AND (of_category IS NULL OR category = of_category) AND (of_key IS NULL OR key = of_key);
  INSERT INTO redrive.pause_rule (kind, category, key, paused) VALUES (of_kind, of_category, of_key, is_paused);
  UPDATE redrive.lane SET paused = is_paused
  WHERE kind = of_kind AND (of_category IS NULL OR category = of_category) AND (of_key IS NULL OR key = of_key);
END
$$;

-- Limits the lanes that match, those that come later included. NULL matches all. One lane needs no rule: it is made.
CREATE FUNCTION redrive.limit_lanes(
  of_kind text, of_category text, of_key text, most int, rate float8, is_ordered boolean, at bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF of_category IS NOT NULL AND of_key IS NOT NULL THEN
    PERFORM redrive.make_lanes(
      json_build_array(json_build_object('kind', of_kind, 'category', of_category, 'key', of_key)));
  ELSE
    -- Said again, it waits for no transaction that has made lanes and is not over yet: their lanes know it already.
    PERFORM FROM redrive.limit_rule
    WHERE id = (SELECT max(id) FROM redrive.limit_rule WHERE kind = of_kind)
      AND (category, key) IS NOT DISTINCT FROM (of_category, of_key)
      AND (concurrency, per_second, ordered) IS NOT DISTINCT FROM (most, rate, is_ordered);
    IF NOT FOUND THEN
      PERFORM pg_advisory_xact_lock('redrive.pause_rule'::regclass::bigint);
      -- What the new rule covers has been overruled.
      DELETE FROM redrive.limit_rule
      WHERE kind = of_kind AND (of_category IS NULL OR category = of_category) AND (of_key IS NULL OR key = of_key);
      INSERT INTO redrive.limit_rule (kind, category, key, concurrency, per_second, ordered)
      VALUES (of_kind, of_category, of_key, most, rate, is_ordered);
    END IF;
  END IF;
  UPDATE redrive.lane
  SET concurrency = most, per_second = rate, ordered = is_ordered, tokens = greatest(1, rate),
    refilled_at = redrive.now_ms(at)
  WHERE kind = of_kind AND (of_category IS NULL OR category = of_category) AND (of_key IS NULL OR key = of_key)
    AND (concurrency, per_second, ordered) IS DISTINCT FROM (most, rate, is_ordered);
END
$$;

-- Forgets tasks that ended so in one of the states, up to so many. Returns how many went.
CREATE FUNCTION redrive.prune_ended(of_state smallint, before bigint, up_to int) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  gone int := 0;
  place tid;
  ids text[];
  old text[];
BEGIN
  FOR place, ids IN
    SELECT ended.ctid, ended.tasks FROM redrive.ended
    WHERE ended.state = of_state AND ended.at <= before AND up_to > 0
    ORDER BY ended.at FOR UPDATE SKIP LOCKED
  LOOP
    old := ids[1 : up_to - gone];
    IF cardinality(ids) > cardinality(old) THEN
      UPDATE redrive.ended SET tasks = ids[cardinality(old) + 1 :] WHERE ctid = place;
    ELSE
      DELETE FROM redrive.ended WHERE ctid = place;
    END IF;
    WITH forgotten AS (
      DELETE FROM redrive.task WHERE id = ANY (old) AND state = of_state RETURNING id, lane
    ), unrecorded AS (
      DELETE FROM redrive.ledger WHERE task IN (SELECT forgotten.id FROM forgotten)
    )
    INSERT INTO redrive.tally (lane, succeeded, skipped, cancelled, dead)
    SELECT lane, -count(*) FILTER (WHERE of_state = 4), -count(*) FILTER (WHERE of_state = 5),
      -count(*) FILTER (WHERE of_state = 7), -count(*) FILTER (WHERE of_state = 6)
    FROM forgotten GROUP BY lane;
    gone := gone + cardinality(old);
    EXIT WHEN gone >= up_to;
  END LOOP;
  RETURN gone;
END
$$;

-- Forgets what ended long enough ago, up to so many tasks, keys and records in all. Returns how many went.
CREATE FUNCTION redrive.prune(
  ended_ms bigint, dead_ms bigint, keys_ms bigint, audit_ms bigint, up_to int, at bigint
) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  gone int := 0;
  count int;
  of_state smallint;
BEGIN
  FOREACH of_state IN ARRAY ARRAY[4, 5, 7, 6]::smallint[] LOOP
    gone := gone + redrive.prune_ended(
      of_state, now_ms - CASE of_state WHEN 6 THEN dead_ms ELSE ended_ms END, up_to - gone);
  END LOOP;

  DELETE FROM redrive.idempotency WHERE key IN (
    SELECT key FROM redrive.idempotency WHERE done_at <= now_ms - keys_ms ORDER BY done_at LIMIT up_to - gone
    FOR UPDATE SKIP LOCKED
  );
  GET DIAGNOSTICS count = ROW_COUNT;
  gone := gone + count;

  DELETE FROM redrive.audit WHERE id IN (
    SELECT id FROM redrive.audit WHERE audit.at <= now_ms - audit_ms ORDER BY id LIMIT up_to - gone FOR UPDATE SKIP LOCKED
  );
  GET DIAGNOSTICS count = ROW_COUNT;
  RETURN gone + count;
END
$$;
