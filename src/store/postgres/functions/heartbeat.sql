-- The release that a worker has reported.
CREATE OR REPLACE FUNCTION redrive.release_of(of_worker text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT release FROM redrive.worker WHERE id = of_worker);
END
$$;

-- The notes of the attempt at a task that began at a time, as its worker last reported them, as JSON. The same as `notesOf` of
-- src/store/rules/notes-of.ts.
CREATE OR REPLACE FUNCTION redrive.notes_of(of_worker text, of_task text, began bigint) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT live.note ->> 'notes'
    FROM redrive.worker CROSS JOIN LATERAL (SELECT worker.notes -> of_task) AS live (note)
    WHERE worker.id = of_worker AND (live.note ->> 'since')::bigint = began
  );
END
$$;

-- Takes tasks from a worker: those of its claims up to `as_of`, save the claims in `known_claims`. They go back as
-- `released`, at no cost, or as `lost`, since the worker died. A task that somebody has locked, such as a handler in
-- its own transaction, is left for the next time. Also deletes the claims of which nothing runs any more. Returns the
-- number of tasks taken.
CREATE OR REPLACE FUNCTION redrive.take_from(
  gone text, as_type text, known_claims bigint[], as_of bigint, now_ms bigint
) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  runs json;
  groups json;
  count int := 0;
BEGIN
  SELECT json_agg(json_build_object(
    'n', 0, 'id', id, 'round', round,
    -- A task that was claimed for the decision on its loss had not been started.
    'type', CASE WHEN undecided THEN 'released' ELSE as_type END,
    'attempt', attempts + 1, 'began', at, 'ended', now_ms, 'worker', gone, 'release', redrive.release_of(gone),
    'notes', redrive.notes_of(gone, id, at), 'failure_group', redrive.lost_group(kind) -> 'id'
  )), json_agg(redrive.lost_group(kind)) FILTER (WHERE kind IS NOT NULL) INTO runs, groups
  FROM (
    SELECT task.id, task.round, task.undecided, task.attempts, greatest(claim.at, task.changed_at) AS at,
      CASE WHEN as_type = 'lost' AND NOT task.undecided
        THEN (SELECT its.kind FROM redrive.lane AS its WHERE its.id = task.lane) END AS kind
    FROM redrive.claim CROSS JOIN unnest(claim.tasks, claim.rounds) AS one (id, round)
    JOIN redrive.task ON task.id = ANY (ARRAY[one.id]) AND task.round = one.round
      AND task.state = redrive.state_running()
    WHERE claim.worker = gone AND claim.id <= as_of AND claim.id <> ALL (known_claims)
    FOR UPDATE OF task SKIP LOCKED
  ) AS running_task;
  IF runs IS NOT NULL THEN
    count := cardinality(redrive.settle_outcomes(json_build_object('outcomes', runs, 'groups', coalesce(groups, '[]')), now_ms));
  END IF;
  DELETE FROM redrive.claim
  WHERE worker = gone AND claim.id <= as_of AND claim.id <> ALL (known_claims) AND NOT EXISTS (
    SELECT FROM unnest(claim.tasks, claim.rounds) AS one (id, round)
    JOIN redrive.task ON task.id = ANY (ARRAY[one.id]) AND task.round = one.round
      AND task.state = redrive.state_running()
  );
  RETURN count;
END
$$;

-- The running tasks of a worker that somebody asked to cancel, as a JSON array of {claim, n, round, lane, advances}.
CREATE OR REPLACE FUNCTION redrive.cancelled(by_worker text) RETURNS json LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(json_build_object(
      'claim', claim.id, 'n', one.n, 'round', one.round, 'lane', task.lane, 'advances', task.advances)), '[]')
    FROM redrive.claim CROSS JOIN unnest(claim.tasks, claim.rounds) WITH ORDINALITY AS one (id, round, n)
    JOIN redrive.task ON task.id = ANY (ARRAY[one.id]) AND task.round = one.round
      AND task.state = redrive.state_running()
    WHERE claim.worker = by_worker AND task.cancel_requested
  );
END
$$;

-- Renews a worker's lease, and keeps its report: JSON of {release, kinds, categories, isPaused, host, grouping, overruns, notes}, or NULL if there is none.
CREATE OR REPLACE FUNCTION redrive.renew(by_worker text, lease_until bigint, report json, now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO redrive.worker AS known (id, until, release, kinds, categories, paused, host, grouping, overruns, notes, since, beat_at)
  SELECT by_worker, lease_until, release, kinds, categories, coalesce(told."isPaused", false), host, told.grouping, overruns, told.notes, now_ms, now_ms
  FROM json_to_record(coalesce(report, '{}')) AS told (
    release text, kinds text[], categories text[], "isPaused" boolean, host text, grouping text, overruns text[], notes json)
  ON CONFLICT (id) DO UPDATE
  SET until = greatest(known.until, excluded.until), release = excluded.release, kinds = excluded.kinds,
    categories = excluded.categories, paused = excluded.paused, host = excluded.host, grouping = excluded.grouping, overruns = excluded.overruns,
    notes = excluded.notes,
    since = coalesce(known.since, excluded.since), beat_at = excluded.beat_at;
END
$$;

-- Renews a worker's lease, and rescues the tasks of workers whose lease has run out. Claims of this worker that are not
-- among those it knows are claims whose answer was lost: their tasks go back at no cost. Returns JSON: {cancelled,
-- rescued, version, oldest}, where `cancelled` is an array of {claim, n, round, lane, advances}, and the last two say
-- which schema the store has, and the oldest whose code may work with it.
CREATE OR REPLACE FUNCTION redrive.heartbeat(
  by_worker text, lease_ms bigint, known_claims bigint[], as_of bigint, report json, at bigint
) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  gone text;
  rescued int := 0;
BEGIN
  PERFORM redrive.renew(by_worker, now_ms + lease_ms, report, now_ms);
  FOR gone IN SELECT id FROM redrive.worker WHERE until <= now_ms FOR UPDATE SKIP LOCKED LOOP
    rescued := rescued + redrive.take_from(gone, 'lost', '{}', 9223372036854775807, now_ms);
    DELETE FROM redrive.worker
    WHERE id = gone AND NOT EXISTS (SELECT FROM redrive.claim WHERE worker = gone);
  END LOOP;
  rescued := rescued + redrive.take_from(by_worker, 'released', known_claims, as_of, now_ms);
  PERFORM redrive.fold_tally(
    -9223372036854775807, 9223372036854775807, 1000 + 2 * (SELECT count(*) FROM redrive.lane));
  PERFORM redrive.fold_answers(now_ms);
  PERFORM redrive.fold_attempts(now_ms);
  PERFORM redrive.fold_groups(now_ms);
  PERFORM redrive.fold_costs(now_ms);
  PERFORM redrive.fold_budget_costs(now_ms);
  RETURN json_build_object(
    'cancelled', redrive.cancelled(by_worker),
    'rescued', rescued,
    'version', (SELECT version FROM redrive.schema_version),
    'oldest', (SELECT oldest FROM redrive.schema_version)
  )::text;
END
$$;
