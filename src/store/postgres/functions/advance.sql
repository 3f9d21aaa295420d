-- The lanes that items advance to, given as a JSON array of {n, lane, category}: the lane of that category with the kind
-- and key of the lane before. They are made where they are missing. Returns their ids in the order of `n`.
CREATE OR REPLACE FUNCTION redrive.lanes_after(nexts json) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  missing json;
BEGIN
  SELECT json_agg(json_build_object('kind', origin.kind, 'category', next.category, 'key', origin.key)) INTO missing
  FROM json_to_recordset(nexts) AS next (n int, lane bigint, category text)
  JOIN redrive.lane AS origin ON origin.id = ANY (ARRAY[next.lane])
  WHERE (
    SELECT its.id FROM redrive.lane AS its
    WHERE its.kind = origin.kind AND its.category = next.category AND its.key = origin.key AND its.retired IS NULL
  ) IS NULL;
  IF missing IS NOT NULL THEN
    PERFORM redrive.make_lanes(missing);
  END IF;
  RETURN (
    SELECT array_agg((
      SELECT its.id FROM redrive.lane AS its
      WHERE its.kind = origin.kind AND its.category = next.category AND its.key = origin.key
    ) ORDER BY next.n)
    FROM json_to_recordset(nexts) AS next (n int, lane bigint, category text)
    LEFT JOIN redrive.lane AS origin ON origin.id = ANY (ARRAY[next.lane])
  );
END
$$;

-- Whether a lane may keep an item now, where `leaving` running tasks make room. A lane with limits is locked, so that
-- nobody else takes the same slot in it; if somebody else has locked it, it keeps none.
CREATE OR REPLACE FUNCTION redrive.opening_of(of_lane bigint, leaving int, now_ms bigint) RETURNS redrive.opening
LANGUAGE plpgsql
SET enable_sort = off AS $$
DECLARE
  lane redrive.lane;
  opening redrive.opening;
BEGIN
  SELECT * INTO lane FROM redrive.lane AS named WHERE named.id = of_lane;
  IF lane.concurrency IS NOT NULL OR lane.ramp IS NOT NULL OR lane.per_second IS NOT NULL THEN
    SELECT * INTO lane FROM redrive.lane AS named WHERE named.id = of_lane FOR UPDATE SKIP LOCKED;
    lane.concurrency := lane.concurrency + leaving;
    lane.ramp := lane.ramp + leaving;
    PERFORM redrive.fold_tally(of_lane, of_lane, 64);
  END IF;
  opening.allowance := CASE WHEN lane.id IS NULL THEN 0 ELSE redrive.allowance(lane, now_ms) END;
  -- An item waits where a gate is open.
  IF redrive.is_gated(lane.kind, lane.category) OR lane.ordered AND redrive.is_blocked(of_lane)
    OR lane.blocking AND redrive.letter_before(of_lane, NULL, NULL, NULL) IS NOT NULL THEN
    opening.allowance := 0;
  END IF;
  IF opening.allowance > 0 THEN
    SELECT waiting.priority, waiting.submitted_at, waiting.task
    INTO opening.priority, opening.submitted_at, opening.task
    FROM redrive.waiting WHERE waiting.state = redrive.state_ready() AND waiting.lane = of_lane
    ORDER BY waiting.priority DESC, waiting.submitted_at, waiting.task LIMIT 1;
  END IF;
  RETURN opening;
END
$$;

-- Decides, for each item of a batch in turn, whether its worker may keep it: if it asks to, the lane may take one more, and
-- no task that is ready there comes before it. An item that is not kept is ready there for those after it. No two of
-- `to_lanes` are the same. Returns an answer for each row, or NULL if all are kept.
CREATE OR REPLACE FUNCTION redrive.admit(batch redrive.settlement_columns, now_ms bigint) RETURNS boolean[]
LANGUAGE plpgsql AS $$
DECLARE
  openings redrive.opening[];
  allowances int[];
  admitted boolean[] := array_fill(false, ARRAY[cardinality(batch.ids)]);
  item record;
BEGIN
  IF NOT (batch.keeps IS NULL OR true = ANY (batch.keeps)) THEN
    RETURN admitted;
  END IF;
  PERFORM redrive.make_due_ready(redrive.retry_budgets(), now_ms);
  -- An item may advance to its own lane. If others leave a lane where room is scarce, each comes by itself.
  openings := ARRAY(
    SELECT redrive.opening_of(lane, (cardinality(batch.ids) = 1 AND lane = batch.lanes[1])::int, now_ms)
    FROM unnest(batch.to_lanes) AS lane);
  IF batch.keeps IS NULL AND NOT EXISTS (
    SELECT FROM unnest(openings) WITH ORDINALITY AS opening (allowance, priority, submitted_at, task, n)
    WHERE opening.task IS NOT NULL
      OR opening.allowance < (SELECT count(*) FROM unnest(batch.nexts) AS next WHERE next = opening.n)
  ) THEN
    RETURN NULL;
  END IF;

  allowances := ARRAY(SELECT opening.allowance FROM unnest(openings) AS opening);
  FOR item IN
    SELECT run.n, run.next, coalesce(run.keep, batch.keeps IS NULL) AS keep, task.priority, task.submitted_at, task.id
    FROM redrive.advances_in(batch) AS run
    JOIN redrive.task ON task.id = ANY (ARRAY[run.id]) AND task.state = redrive.state_running()
      AND task.round = run.round AND task.advances = run.advances AND NOT task.cancel_requested
    ORDER BY run.n
  LOOP
    CONTINUE WHEN allowances[item.next] = 0 OR coalesce((-item.priority, item.submitted_at, item.id) > (
      -openings[item.next].priority, openings[item.next].submitted_at, openings[item.next].task), false);
    IF item.keep THEN
      admitted[item.n] := true;
      allowances[item.next] := allowances[item.next] - 1;
    ELSE
      openings[item.next] := ROW(0, item.priority, item.submitted_at, item.id)::redrive.opening;
    END IF;
  END LOOP;
  RETURN admitted;
END
$$;

-- Of the items that their lanes admit, those that the shared limits of these lanes admit too.
CREATE OR REPLACE FUNCTION redrive.admit_shared(
  batch redrive.settlement_columns, admitted boolean[], now_ms bigint
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
  to_shared bigint[] := ARRAY(
    SELECT (SELECT its.shared FROM redrive.lane AS its WHERE its.id = lane) FROM unnest(batch.to_lanes) AS lane);
  shareds bigint[];
  leaving bigint;
  payment record;
BEGIN
  IF (SELECT count(shared) FROM unnest(to_shared) AS shared) = 0 THEN
    RETURN admitted;
  END IF;
  shareds := ARRAY(
    SELECT CASE WHEN coalesce(admitted[run.n], true) THEN to_shared[run.next] END
    FROM unnest(batch.nexts) WITH ORDINALITY AS run (next, n) ORDER BY run.n);
  IF cardinality(batch.nexts) = 1 THEN
    leaving := (SELECT its.shared FROM redrive.lane AS its WHERE its.id = batch.lanes[1]);
  END IF;
  payment := redrive.pay(shareds, batch.costs, leaving, now_ms);
  RETURN ARRAY(
    SELECT coalesce(admitted[run.n], true) AND run.is_paid
    FROM unnest(payment.paid) WITH ORDINALITY AS run (is_paid, n) ORDER BY run.n);
END
$$;

-- Whether the order of a batch decides which items are kept: more ask to be than may run at once in their next lane, and
-- tasks that leave it make room.
CREATE OR REPLACE FUNCTION redrive.is_room_scarce(batch redrive.settlement_columns, now_ms bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM unnest(batch.to_lanes) WITH ORDINALITY AS named (lane, n)
    JOIN redrive.lane AS its ON its.id = ANY (ARRAY[named.lane])
    WHERE (its.concurrency IS NOT NULL OR its.ramp IS NOT NULL) AND NOT its.paused AND its.held_until <= now_ms
      AND redrive.allowance(its, now_ms) < (SELECT count(*) FROM unnest(batch.nexts) AS next WHERE next = named.n)
  ) OR EXISTS (
    SELECT FROM unnest(batch.to_lanes) AS named (lane)
    CROSS JOIN LATERAL (SELECT lane.shared FROM redrive.lane WHERE lane.id = named.lane OFFSET 0) AS its
    JOIN redrive.shared_limit AS this ON this.id = ANY (ARRAY[its.shared])
    WHERE this.limits::jsonb ? 'concurrency' AND redrive.shared_room(this) < cardinality(batch.nexts)
  );
END
$$;

-- The categories of these lanes. Looking them up once for each lane, and not for each item, saves a tenth of an advance.
CREATE OR REPLACE FUNCTION redrive.categories_of(lanes bigint[]) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT (SELECT its.category FROM redrive.lane AS its WHERE its.id = given.lane)
    FROM unnest(lanes) WITH ORDINALITY AS given (lane, n) ORDER BY given.n
  );
END
$$;

-- The rounds that an advance takes if the item then waits. An item that is kept stays in its round, and goes on by one each
-- time that it is handed back: it would have to be handed back as often to be taken for one that waited from the start.
CREATE OR REPLACE FUNCTION redrive.rounds_to_wait() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 1024';

-- Advances the items of a batch: writes their rows, the ledger and the counts. Leaves those alone that somebody asked to
-- cancel. The same as `afterSettlement` of src/store/rules/after-settlement.ts, and as src/store/sqlite/advance.ts.
--
-- Returns the positions of those kept and of those that wait now, the argument of `ramp_up`, what `note_answers` and
-- `note_attempts` are told where something counts it, and the ids of those that are still in a group.
CREATE OR REPLACE FUNCTION redrive.advance(
  batch redrive.settlement_columns, admitted boolean[], now_ms bigint,
  OUT kept int[], OUT queued int[], OUT ends json, OUT from_lanes bigint[], OUT attempts json, OUT grouped text[]
) LANGUAGE plpgsql AS $$
DECLARE
  origins bigint[] := ARRAY(SELECT DISTINCT lane FROM unnest(batch.lanes) AS lane);
  categories text[] := redrive.categories_of(origins);
  has constant record := redrive.has_any();
BEGIN
  WITH item AS (
    UPDATE redrive.task
    SET lane = batch.to_lanes[run.next], advances = task.advances + 1,
      round = task.round + redrive.rounds_to_wait() * (NOT coalesce(admitted[run.n], true))::int,
      changed_at = now_ms, started_at = now_ms, entries = entries + (run.attempt > 0)::int, attempts = 0, deferrals = 0,
      losses = 0, undecided = false, previous_delay = NULL, error_class = NULL, error_code = NULL, error_message = NULL,
      value = run.result, cost = run.cost
    FROM redrive.advances_in(batch) AS run
    WHERE task.id = ANY (ARRAY[run.id]) AND task.state = redrive.state_running()
      AND task.round = run.round AND task.advances = run.advances AND NOT task.cancel_requested
    RETURNING run.n, task.id, task.lane, task.priority, task.submitted_at, task.entries, task.round = run.round AS is_kept,
      task.failure_group, run.lane AS from_lane, run.attempt, run.began, run.took, run.worker, run.version, run.call,
      run.release, run.details AS more
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, error_class, error_code,
      retry_after, error, random, policy, category, version, call, trace, release, notes)
    SELECT id, entries, attempt, item.began, item.began + item.took, worker, 'advanced', more ->> 'error_class',
      more ->> 'error_code', (more ->> 'retry_after')::bigint, more ->> 'error', (more ->> 'random')::float8,
      more ->> 'policy', categories[array_position(origins, from_lane)], version, call, more ->> 'trace', release,
      more ->> 'notes'
    FROM item WHERE attempt > 0
  ), waits AS (
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at)
    SELECT id, lane, redrive.state_ready(), priority, submitted_at, now_ms FROM item WHERE NOT is_kept
  ), tallied AS (
    INSERT INTO redrive.tally (lane, running, waiting)
    SELECT change.lane, sum(change.running), sum(change.waiting) FROM (
      SELECT from_lane, -1, 0 FROM item UNION ALL SELECT lane, is_kept::int, (NOT is_kept)::int FROM item
    ) AS change (lane, running, waiting)
    GROUP BY change.lane HAVING sum(change.running) <> 0 OR sum(change.waiting) <> 0
  ), charged_lane AS (
    UPDATE redrive.lane AS its
    SET tokens = CASE WHEN its.per_second IS NULL THEN its.tokens ELSE redrive.tokens(its, now_ms) - entry.count END,
      refilled_at = now_ms, last_place = CASE WHEN its.ordered THEN entry.last_place END
    FROM (SELECT lane, count(*), max(submitted_at) AS last_place FROM item WHERE is_kept GROUP BY lane) AS entry
    WHERE its.id = ANY (ARRAY[entry.lane]) AND (its.per_second IS NOT NULL OR its.ordered)
  )
  SELECT array_agg(n) FILTER (WHERE is_kept), array_agg(n) FILTER (WHERE NOT is_kept),
    json_agg(json_build_object('lane', from_lane, 'began', item.began)) FILTER (WHERE has.ramps AND attempt > 0),
    array_agg(from_lane) FILTER (WHERE has.shared_limits AND attempt > 0),
    json_agg(json_build_array(from_lane, item.began, attempt, more)) FILTER (WHERE has.budgets),
    array_agg(id) FILTER (WHERE failure_group IS NOT NULL)
  INTO kept, queued, ends, from_lanes, attempts, grouped
  FROM item;
END
$$;

-- Ends the items of a batch that somebody asked to cancel. Returns their positions.
CREATE OR REPLACE FUNCTION redrive.cancel_instead(batch redrive.settlement_columns, now_ms bigint) RETURNS int[]
LANGUAGE plpgsql AS $$
DECLARE
  outcomes json;
  groups json;
BEGIN
  SELECT json_agg(coalesce(run.details::jsonb, '{}') || jsonb_build_object(
    'n', run.n, 'id', run.id, 'round', run.round, 'advances', run.advances, 'type', 'advanced',
    'attempt', nullif(run.attempt, 0), 'began', run.began, 'ended', run.began + run.took, 'worker', run.worker,
    'version', run.version, 'call', run.call, 'release', run.release
  )), json_agg(run.details -> 'group') FILTER (WHERE run.details -> 'group' IS NOT NULL) INTO outcomes, groups
  FROM redrive.advances_in(batch) AS run
  JOIN redrive.task ON task.id = ANY (ARRAY[run.id]) AND task.state = redrive.state_running()
    AND task.round = run.round AND task.advances = run.advances AND task.cancel_requested;
  IF outcomes IS NULL THEN
    RETURN '{}';
  END IF;
  RETURN redrive.settle_outcomes(json_build_object('outcomes', outcomes, 'groups', coalesce(groups, '[]')), now_ms);
END
$$;

-- Finds items of a batch that have advanced already: the settlement is repeated, since its answer was lost. `done` are
-- positions that advanced just now. Returns the positions of those that their worker still keeps, each with the time at
-- which it advanced, as [position, time], and of those that wait since then.
CREATE OR REPLACE FUNCTION redrive.advanced_before(
  batch redrive.settlement_columns, done int[], OUT kept json, OUT queued int[]
) LANGUAGE plpgsql AS $$
BEGIN
  SELECT json_agg(json_build_array(run.n, task.changed_at)) FILTER (WHERE task.round = run.round),
    array_agg(run.n) FILTER (WHERE task.round <> run.round)
  INTO kept, queued
  FROM redrive.advances_in(batch) AS run
  JOIN redrive.task ON task.id = ANY (ARRAY[run.id])
    AND task.advances = run.advances + 1 AND task.lane = batch.to_lanes[run.next]
  WHERE run.n <> ALL (done) AND (
    task.state = redrive.state_running() AND task.round = run.round
    -- Nothing but the advance has happened to it, or it was cancelled while it waited.
    OR task.attempts + task.deferrals + task.losses = 0 AND (
      task.state = redrive.state_running() AND task.round = run.round + redrive.rounds_to_wait()
        AND task.changed_at = task.started_at
        AND EXISTS (SELECT FROM redrive.waiting_of(task))
      OR task.state = redrive.state_cancelled() AND task.round = run.round + redrive.rounds_to_wait() + 1
        AND task.cancel_requested
    )
  );
END
$$;

-- Settles the advances of a batch. Returns the positions of those that are kept and those that have left their worker, now
-- and before (see `advanced_before`).
CREATE OR REPLACE FUNCTION redrive.settle_advances(
  batch redrive.settlement_columns, now_ms bigint,
  OUT kept int[], OUT gone int[], OUT kept_before json, OUT gone_before int[]
) LANGUAGE plpgsql AS $$
DECLARE
  done record;
  admitted boolean[] := redrive.admit(batch, now_ms);
BEGIN
  IF redrive.is_any_binding(now_ms) THEN
    admitted := redrive.admit_shared(batch, admitted, now_ms);
  END IF;
  done := redrive.advance(batch, admitted, now_ms);
  kept := coalesce(done.kept, '{}');
  gone := coalesce(done.queued, '{}');
  IF done.grouped IS NOT NULL THEN
    PERFORM redrive.leave_groups(done.grouped, now_ms);
  END IF;
  IF done.ends IS NOT NULL THEN
    PERFORM redrive.ramp_up(done.ends);
  END IF;
  IF done.from_lanes IS NOT NULL THEN
    PERFORM redrive.note_answers(done.from_lanes, ARRAY(SELECT 1 FROM unnest(done.from_lanes)), now_ms);
  END IF;
  IF done.attempts IS NOT NULL THEN
    PERFORM redrive.note_attempts(array_agg(ROW((run ->> 0)::bigint, (run ->> 1)::bigint, CASE
      WHEN (run ->> 2)::int = 0 THEN 'none'
      WHEN run -> 3 ->> 'error_class' IS NULL THEN 'ok'
      WHEN run -> 3 ->> 'error_class' = 'retryable' THEN 'failed'
      ELSE 'none' END, json_build_array(run -> 3 ->> 'error_code', NULL), (run ->> 2)::int = 1, 1)::redrive.attempt_count),
      now_ms)
    FROM json_array_elements(done.attempts) AS run;
  END IF;
  IF cardinality(kept) + cardinality(gone) < redrive.count_advances(batch) THEN
    gone := gone || redrive.cancel_instead(batch, now_ms);
    done := redrive.advanced_before(batch, kept || gone);
    kept_before := done.kept;
    gone_before := done.queued;
  END IF;
END
$$;

-- Advances new items whose first attempt was made elsewhere, given as `settle_outcomes` takes outcomes, with `to`, `value` and
-- `cost`. Other outcomes are left out.
CREATE OR REPLACE FUNCTION redrive.advance_tried(tried json, now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  batch redrive.settlement_columns;
BEGIN
  SELECT array_agg(id), array_agg(round), array_agg(0), array_agg(lane), array_agg(value), array_agg(coalesce(attempt, 0)),
    array_agg(began), array_agg(ended - began), array_agg(worker), array_agg(version), array_agg(call), array_agg(release),
    array_agg(n), array_agg(false), array_agg(cost), array_agg(entry),
    json_agg(json_build_object('n', n, 'lane', lane, 'category', category))
  INTO batch.ids, batch.rounds, batch.advances, batch.lanes, batch.results, batch.attempts,
    batch.began, batch.took, batch.workers, batch.versions, batch.calls, batch.releases,
    batch.nexts, batch.keeps, batch.costs, batch.details,
    batch.next_lanes
  FROM (
    SELECT run.*, task.lane, given.entry, row_number() OVER ()::int AS n
    FROM json_array_elements(tried -> 'outcomes') AS own (fields)
    CROSS JOIN LATERAL (SELECT ((tried ->> 'shared')::jsonb || own.fields::jsonb)::json AS entry) AS given
    CROSS JOIN json_to_record(given.entry) AS run (id text, round int, type text, "to" text, value text, cost text,
      attempt int, began bigint, ended bigint, worker text, version text, call text, release text)
    JOIN redrive.task ON task.id = ANY (ARRAY[run.id]) AND task.round = run.round
    WHERE run.type = 'advanced'
  ) AS item (id, round, type, category, value, cost, attempt, began, ended, worker, version, call, release, lane,
    entry, n);
  IF batch.ids IS NOT NULL THEN
    batch.to_lanes := redrive.lanes_after(batch.next_lanes);
    PERFORM redrive.settle_advances(batch, now_ms);
  END IF;
END
$$;
