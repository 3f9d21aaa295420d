-- Takes from a worker what it claimed before a time and does not know of: as `released`, at no cost, or as `lost`, since it
-- died. What somebody has locked, a handler in its own transaction say, is left for the next time. Returns how many tasks
-- that were.
CREATE FUNCTION redrive.take_from(gone text, as_type text, known_tokens text[], as_of bigint, now_ms bigint) RETURNS int
LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  runs json;
BEGIN
  SELECT json_agg(json_build_object(
    'n', n, 'id', id, 'token', token,
    -- What was claimed so that somebody decides on its loss had not been started.
    'type', CASE WHEN undecided THEN 'released' ELSE as_type END,
    'attempt', attempts + 1, 'began', ran_from, 'ended', now_ms, 'worker', worker
  )) INTO runs
  FROM (
    SELECT row_number() OVER () AS n, held.* FROM (
      SELECT * FROM redrive.task
      WHERE state = 3 AND worker = gone AND ran_from < as_of AND token <> ALL (known_tokens)
      FOR UPDATE SKIP LOCKED
    ) AS held
  ) AS numbered;
  IF runs IS NULL THEN
    RETURN 0;
  END IF;
  RETURN cardinality(redrive.apply(runs, now_ms));
END
$$;

-- Renews a worker's lease and rescues the tasks of those whose lease has run out. Tasks that are this worker's by the book
-- but that it does not know of were claimed by a call whose answer never came: they go back at no cost. Returns JSON:
-- {cancelled, rescued}.
CREATE FUNCTION redrive.heartbeat(by_worker text, lease_ms bigint, known_tokens text[], as_of bigint, at bigint)
RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  gone text;
  rescued int := 0;
BEGIN
  INSERT INTO redrive.worker AS known (id, until) VALUES (by_worker, now_ms + lease_ms)
  ON CONFLICT (id) DO UPDATE SET until = greatest(known.until, excluded.until);

  FOR gone IN SELECT id FROM redrive.worker WHERE until <= now_ms FOR UPDATE SKIP LOCKED LOOP
    rescued := rescued + redrive.take_from(gone, 'lost', '{}', 9223372036854775807, now_ms);
    DELETE FROM redrive.worker
    WHERE id = gone AND NOT EXISTS (SELECT FROM redrive.task WHERE state = 3 AND worker = gone);
  END LOOP;
  rescued := rescued + redrive.take_from(by_worker, 'released', known_tokens, as_of, now_ms);
  PERFORM redrive.fold_tally();
  RETURN json_build_object(
    'cancelled', (
      SELECT coalesce(json_agg(token), '[]') FROM redrive.task
      WHERE state = 3 AND worker = by_worker AND cancel_requested
    ),
    'rescued', rescued
  )::text;
END
$$;

-- Hands back what a worker has, uncounted, and forgets it. Returns how many tasks that were.
CREATE FUNCTION redrive.leave(by_worker text, at bigint) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off AS $$
DECLARE
  count int := redrive.take_from(by_worker, 'released', '{}', 9223372036854775807, redrive.now_ms(at));
BEGIN
  -- What is left is locked: its lease runs out at once, and somebody rescues it.
  UPDATE redrive.worker SET until = 0 WHERE id = by_worker;
  DELETE FROM redrive.worker
  WHERE id = by_worker AND NOT EXISTS (SELECT FROM redrive.task WHERE state = 3 AND worker = by_worker);
  RETURN count;
END
$$;

-- Adds up the changes of counts once there are many.
CREATE FUNCTION redrive.fold_tally() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) FROM redrive.tally) < 1000 + 2 * (SELECT count(*) FROM redrive.lane) THEN
    RETURN;
  END IF;
  WITH folded AS (
    DELETE FROM redrive.tally WHERE ctid = ANY (ARRAY(SELECT ctid FROM redrive.tally FOR UPDATE SKIP LOCKED))
    RETURNING *
  )
  INSERT INTO redrive.tally (lane, waiting, running, succeeded, skipped, dead, cancelled)
  SELECT lane, sum(waiting), sum(running), sum(succeeded), sum(skipped), sum(dead), sum(cancelled)
  FROM folded GROUP BY lane;
END
$$;
