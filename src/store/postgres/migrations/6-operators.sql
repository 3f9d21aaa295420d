-- Gives dead tasks fresh attempts, on record. Returns the ids of those it moved, as a JSON array.
CREATE FUNCTION redrive.redrive(ids text[], who text, why text, at bigint) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  moved text;
BEGIN
  WITH dead AS MATERIALIZED (
    SELECT id, lane, entries FROM redrive.task WHERE id = ANY (ids) AND state = 6 ORDER BY id FOR UPDATE
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason)
    SELECT id, entries + 1, 0, now_ms, now_ms, who, 'redriven', why FROM dead
  ), counted AS (
    INSERT INTO redrive.tally (lane, dead, waiting) SELECT lane, -count(*), count(*) FROM dead GROUP BY lane
  ), written AS (
    UPDATE redrive.task
    SET state = CASE losses WHEN 0 THEN 1 ELSE 2 END, started_at = now_ms, changed_at = now_ms, next_at = now_ms,
      entries = entries + 1, attempts = 0, deferrals = 0, undecided = false, previous_delay = NULL, error_class = NULL,
      error_code = NULL, error_message = NULL, reason = NULL
    WHERE id IN (SELECT dead.id FROM dead)
    RETURNING id
  )
  SELECT coalesce(json_agg(id), '[]')::text INTO moved FROM written;
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
  WITH living AS MATERIALIZED (
    SELECT id, lane, state FROM redrive.task WHERE id = ANY (ids) AND state <= 3 ORDER BY id FOR UPDATE
  ), counted AS (
    INSERT INTO redrive.tally (lane, waiting, cancelled)
    SELECT lane, -count(*), count(*) FROM living WHERE state < 3 GROUP BY lane
  ), written AS (
    UPDATE redrive.task
    SET state = CASE WHEN state < 3 THEN 7 ELSE state END,
      changed_at = CASE WHEN state < 3 THEN now_ms ELSE changed_at END,
      next_at = NULL,
      cancel_requested = state = 3
    WHERE id IN (SELECT living.id FROM living)
    RETURNING id
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
    WITH old AS MATERIALIZED (
      SELECT id FROM redrive.task
      WHERE state > 3 AND state = of_state AND changed_at <= now_ms - CASE of_state WHEN 6 THEN dead_ms ELSE ended_ms END
      ORDER BY changed_at LIMIT up_to - gone
      FOR UPDATE SKIP LOCKED
    ), forgotten AS (
      DELETE FROM redrive.task WHERE id IN (SELECT old.id FROM old) RETURNING lane
    ), unrecorded AS (
      DELETE FROM redrive.ledger WHERE task IN (SELECT old.id FROM old)
    ), counted AS (
      INSERT INTO redrive.tally (lane, succeeded, skipped, cancelled, dead)
      SELECT lane, -count(*) FILTER (WHERE of_state = 4), -count(*) FILTER (WHERE of_state = 5),
        -count(*) FILTER (WHERE of_state = 7), -count(*) FILTER (WHERE of_state = 6)
      FROM forgotten GROUP BY lane
    )
    SELECT count(*) INTO count FROM old;
    gone := gone + count;
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
