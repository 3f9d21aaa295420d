-- Takes from a worker what it claimed, up to a claim, by claims that it does not know of: as `released`, at no cost, or as
-- `lost`, since it died. What somebody has locked, a handler in its own transaction say, is left for the next time. Forgets
-- claims of which nothing runs any more. Returns how many tasks that were.
CREATE FUNCTION redrive.take_from(gone text, as_type text, known_claims bigint[], as_of bigint, now_ms bigint) RETURNS int
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  runs json;
  count int := 0;
BEGIN
  SELECT json_agg(json_build_object(
    'n', 0, 'id', id, 'round', round,
    -- What was claimed so that somebody decides on its loss had not been started.
    'type', CASE WHEN undecided THEN 'released' ELSE as_type END,
    'attempt', attempts + 1, 'began', at, 'ended', now_ms, 'worker', gone
  )) INTO runs
  FROM (
    SELECT task.id, task.round, task.undecided, task.attempts, claim.at
    FROM redrive.claim CROSS JOIN unnest(claim.tasks, claim.rounds) AS one (id, round)
    JOIN redrive.task ON task.id = one.id AND task.round = one.round AND task.state = 3
    WHERE claim.worker = gone AND claim.id <= as_of AND claim.id <> ALL (known_claims)
    FOR UPDATE OF task SKIP LOCKED
  ) AS held;
  IF runs IS NOT NULL THEN
    count := cardinality(redrive.apply(runs, now_ms));
  END IF;
  DELETE FROM redrive.claim
  WHERE worker = gone AND claim.id <= as_of AND claim.id <> ALL (known_claims) AND NOT EXISTS (
    SELECT FROM unnest(claim.tasks, claim.rounds) AS one (id, round)
    JOIN redrive.task ON task.id = one.id AND task.round = one.round AND task.state = 3
  );
  RETURN count;
END
$$;

-- Renews a worker's lease and rescues the tasks of those whose lease has run out. Claims that are this worker's by the
-- book but that it does not know of are those whose answer never came: their tasks go back at no cost. Returns JSON:
-- {cancelled, rescued}, where the former are {claim, n, round}.
CREATE FUNCTION redrive.heartbeat(by_worker text, lease_ms bigint, known_claims bigint[], as_of bigint, at bigint)
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
    WHERE id = gone AND NOT EXISTS (SELECT FROM redrive.claim WHERE worker = gone);
  END LOOP;
  rescued := rescued + redrive.take_from(by_worker, 'released', known_claims, as_of, now_ms);
  PERFORM redrive.fold_tally(
    -9223372036854775807, 9223372036854775807, 1000 + 2 * (SELECT count(*) FROM redrive.lane));
  RETURN json_build_object(
    'cancelled', (
      SELECT coalesce(json_agg(json_build_object('claim', claim.id, 'n', one.n, 'round', one.round)), '[]')
      FROM redrive.claim CROSS JOIN unnest(claim.tasks, claim.rounds) WITH ORDINALITY AS one (id, round, n)
      JOIN redrive.task ON task.id = one.id AND task.round = one.round AND task.state = 3
      WHERE claim.worker = by_worker AND task.cancel_requested
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
  WHERE id = by_worker AND NOT EXISTS (SELECT FROM redrive.claim WHERE worker = by_worker);
  RETURN count;
END
$$;
