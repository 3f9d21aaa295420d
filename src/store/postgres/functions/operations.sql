-- The tally of a row as JSON.
CREATE OR REPLACE FUNCTION redrive.tally_json(this redrive.operation_tally) RETURNS json LANGUAGE sql STABLE AS $$
  SELECT json_build_object('passed', this.passed, 'failed', this.failed, 'unanswered', this.unanswered,
    'succeeded', this.succeeded, 'skipped', this.skipped, 'dead', this.dead, 'cancelled', this.cancelled)
$$;

-- The tally of an operation whose record is locked, and the time. Folds its counts once they are many. Returns {now, tally};
-- the tally is NULL if nothing has been counted.
CREATE OR REPLACE FUNCTION redrive.fold_member_tally(of_operation text, at bigint) RETURNS json
LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  IF (SELECT count(*) FROM redrive.operation_count WHERE operation = of_operation) > 100 THEN
    WITH folded AS (
      DELETE FROM redrive.operation_count WHERE operation = of_operation RETURNING *
    )
    INSERT INTO redrive.operation_count (operation, passed, failed, unanswered, succeeded, skipped, dead, cancelled)
    SELECT of_operation, sum(passed), sum(failed), sum(unanswered), sum(succeeded), sum(skipped), sum(dead),
      sum(cancelled)
    FROM folded;
  END IF;
  RETURN json_build_object('now', redrive.now_ms(at), 'tally', (
    SELECT redrive.tally_json(its) FROM redrive.operation_tally AS its WHERE its.operation = of_operation
  ));
END
$$;

-- The tallies of operations, by id.
CREATE OR REPLACE FUNCTION redrive.member_tallies(of_operations text[]) RETURNS json
LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_object_agg(its.operation, redrive.tally_json(its)), '{}')
    FROM redrive.operation_tally AS its WHERE its.operation = ANY (of_operations)
  );
END
$$;

CREATE OR REPLACE FUNCTION redrive.drop_member_tallies(of_operations text[]) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  DELETE FROM redrive.operation_count WHERE operation = ANY (of_operations);
END
$$;

-- Whether an attempt is the first counted one since an operation moved its task.
CREATE OR REPLACE FUNCTION redrive.is_answer(one redrive.ended_attempt) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT one.operation IS NOT NULL AND NOT one.answered AND one.is_recorded
    AND one.outcome IN ('succeeded', 'skipped', 'retry', 'dead')
$$;

-- Adds attempts that have ended to the tallies of the operations that moved their tasks.
CREATE OR REPLACE FUNCTION redrive.note_members(batch redrive.ended_attempt[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO redrive.operation_count (operation, passed, failed, unanswered, succeeded, skipped, dead, cancelled)
  SELECT operation,
    count(*) FILTER (WHERE redrive.is_answer(one) AND outcome IN ('succeeded', 'skipped')),
    count(*) FILTER (WHERE redrive.is_answer(one) AND outcome NOT IN ('succeeded', 'skipped')),
    count(*) FILTER (WHERE NOT (answered OR redrive.is_answer(one)) AND state > redrive.state_running()),
    count(*) FILTER (WHERE state = redrive.state_succeeded()),
    count(*) FILTER (WHERE state = redrive.state_skipped()),
    count(*) FILTER (WHERE state = redrive.state_dead()),
    count(*) FILTER (WHERE state = redrive.state_cancelled())
  FROM unnest(batch) AS one WHERE operation IS NOT NULL
  GROUP BY operation;
END
$$;

-- Members of a set, as columns, and the lanes that they are in: {ids, times, lanes, known}, as JSON. Lists of plain values
-- are made, and read, in a fraction of the time that a list of objects takes.
CREATE OR REPLACE FUNCTION redrive.members_json(ids text[], times bigint[], lanes bigint[]) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT json_build_object('ids', coalesce(ids, '{}'), 'times', coalesce(times, '{}'), 'lanes', coalesce(lanes, '{}'),
    'known', (
      SELECT coalesce(json_agg(its), '[]') FROM (
        SELECT id, kind, category, key, ordered, paused FROM redrive.lane
        WHERE id IN (SELECT DISTINCT unnest(lanes))
      ) AS its
    ))::text
$$;

-- Dead tasks that match and died by a time, oldest first, from behind the last one of the page before. NULL matches
-- everything. Walks on in time, batch by batch, as `ended_page` walks back.
CREATE OR REPLACE FUNCTION redrive.dead_members(
  of_kind text, of_category text, of_key text, of_error text, died_until bigint, after bigint, after_id text, up_to int
) RETURNS text LANGUAGE plpgsql STABLE /* patient verb */ SET enable_sort = off AS $$
DECLARE
  is_any_lane boolean := of_kind IS NULL AND of_category IS NULL AND of_key IS NULL;
  wanted bigint[] := redrive.few_lanes(of_kind, of_category, of_key);
BEGIN
  RETURN (
    SELECT redrive.members_json(array_agg(id), array_agg(at), array_agg(lane)) FROM (
      SELECT listed.id, listed.at, task.lane FROM (
        SELECT ended.at, one.id FROM redrive.ended CROSS JOIN unnest(ended.tasks) AS one (id)
        WHERE ended.state = redrive.state_dead() AND ended.at >= after AND ended.at <= died_until
          AND (ended.at, one.id) > (after, after_id)
          AND (wanted IS NULL OR ended.task_lanes && wanted)
        ORDER BY ended.at, one.id
      ) AS listed
      CROSS JOIN LATERAL (
        SELECT own.lane FROM redrive.task AS own
        WHERE own.id = listed.id AND own.state = redrive.state_dead() AND own.changed_at = listed.at
          AND (of_error IS NULL OR own.error_code = of_error)
          AND CASE
            WHEN is_any_lane THEN true
            WHEN wanted IS NOT NULL THEN own.lane = ANY (wanted)
            ELSE redrive.matches_lane(own.lane, of_kind, of_category, of_key)
          END
        OFFSET 0
      ) AS task
      LIMIT up_to
    ) AS member
  );
END
$$;

-- The same for the dead tasks of a failure group, which an index has in this order.
CREATE OR REPLACE FUNCTION redrive.group_members(
  of_group text, of_kind text, of_category text, of_key text, of_error text, died_until bigint, after bigint,
  after_id text, up_to int
) RETURNS text LANGUAGE plpgsql STABLE /* patient verb */ SET enable_sort = off AS $$
BEGIN
  RETURN (
    SELECT redrive.members_json(array_agg(id), array_agg(changed_at), array_agg(lane)) FROM (
      SELECT id, changed_at, lane FROM redrive.task
      WHERE failure_group = of_group AND failure_state = redrive.state_dead() AND failure_at <= died_until
        AND failure_at >= after AND (failure_at, id) > (after, after_id) AND failure_state IS NOT NULL
        AND (of_error IS NULL OR error_code = of_error)
        AND (of_kind IS NULL AND of_category IS NULL AND of_key IS NULL
          OR redrive.matches_lane(lane, of_kind, of_category, of_key))
      ORDER BY failure_at, id
      LIMIT up_to
    ) AS member
  );
END
$$;

-- Tasks that have not ended, were submitted by a time and match, in no particular order; not those that somebody has asked
-- to end.
CREATE OR REPLACE FUNCTION redrive.living_members(
  of_kind text, of_category text, of_key text, of_error text, of_group text, submitted_until bigint, up_to int
) RETURNS text LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT redrive.members_json(array_agg(id), array_agg(changed_at), array_agg(lane)) FROM (
      SELECT task.id, task.changed_at, task.lane FROM (
        SELECT waiting.task AS id, NULL::int AS round FROM redrive.waiting
        UNION ALL
        SELECT one.id, one.round FROM redrive.claim CROSS JOIN unnest(claim.tasks, claim.rounds) AS one (id, round)
      ) AS living
      CROSS JOIN LATERAL (
        SELECT own.* FROM redrive.task AS own
        -- A task that is not in the round of a claim has left it.
        WHERE own.id = living.id AND own.round = coalesce(living.round, own.round)
          AND own.state = redrive.state_running() AND own.submitted_at <= submitted_until
          AND NOT own.cancel_requested AND (of_error IS NULL OR own.error_code = of_error)
          AND (of_group IS NULL OR own.failure_group = of_group)
        OFFSET 0
      ) AS task
      WHERE redrive.matches_lane(task.lane, of_kind, of_category, of_key)
      LIMIT up_to
    ) AS member
  );
END
$$;

-- Where a task that has not ended stands. A running one is not due at any time.
CREATE OR REPLACE FUNCTION redrive.standing_in(next_at bigint, now_ms bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN next_at IS NULL THEN 'running' WHEN next_at <= now_ms THEN 'due' ELSE 'not_due' END
$$;

-- The same among so many tasks behind an id, in the order of their ids, and where each stands. Returns {members, standings, next},
-- as JSON: the last of these ids if there may be more.
CREATE OR REPLACE FUNCTION redrive.living_from(
  of_kind text, of_category text, of_key text, of_error text, of_group text, submitted_until bigint, after text,
  up_to int, at bigint
) RETURNS text LANGUAGE plpgsql STABLE /* patient verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  page text[] := ARRAY(SELECT id FROM redrive.task WHERE id > after ORDER BY id LIMIT up_to);
BEGIN
  RETURN (
    SELECT json_build_object(
      'next', CASE WHEN cardinality(page) = up_to THEN page[up_to] END,
      'members', redrive.members_json(array_agg(id), array_agg(changed_at), array_agg(lane))::json,
      'standings', coalesce(array_agg(standing), '{}')
    )::text
    FROM (
      SELECT task.id, task.changed_at, task.lane, redrive.standing_in(queued.next_at, now_ms) AS standing
      FROM redrive.task
      LEFT JOIN LATERAL (SELECT * FROM redrive.waiting_of(task) OFFSET 0) AS queued ON true
      WHERE task.id = ANY (page) AND task.state = redrive.state_running() AND task.submitted_at <= submitted_until
        AND NOT task.cancel_requested AND (of_error IS NULL OR task.error_code = of_error)
        AND (of_group IS NULL OR task.failure_group = of_group)
        AND redrive.matches_lane(task.lane, of_kind, of_category, of_key)
      ORDER BY task.id
    ) AS member
  );
END
$$;

-- Restores dead tasks, which are locked, from the last rows of their ledgers, and records it.
CREATE OR REPLACE FUNCTION redrive.restore_dead(ids text[], who text, why text, now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  WITH moved_task AS MATERIALIZED (
    SELECT task.id, task.lane, task.state, task.entries, last.before::json AS before, lane.category
    FROM unnest(ids) AS one (id)
    JOIN redrive.task ON task.id = ANY (ARRAY[one.id])
    JOIN redrive.ledger AS last ON last.task = ANY (ARRAY[one.id]) AND last.sequence = task.entries
    JOIN redrive.lane ON lane.id = ANY (ARRAY[task.lane])
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason, category)
    SELECT id, entries + 1, 0, now_ms, now_ms, who, 'undone', why, category FROM moved_task
  ), tallied AS (
    INSERT INTO redrive.tally (lane, dead, waiting, cancelled)
    SELECT lane, count(*), -count(*) FILTER (WHERE state = redrive.state_running()),
      -count(*) FILTER (WHERE state = redrive.state_cancelled())
    FROM moved_task GROUP BY lane
  ), listed AS (
    INSERT INTO redrive.ended (state, at, lane, tasks, task_lanes)
    SELECT redrive.state_dead(), (before ->> 'changedAt')::bigint, redrive.item_lane(lane), array_agg(id),
      array_agg(DISTINCT lane)
    FROM moved_task GROUP BY 2, 3
  )
  UPDATE redrive.task
  SET state = redrive.state_dead(), round = task.round + 1, started_at = (before ->> 'startedAt')::bigint,
    changed_at = (before ->> 'changedAt')::bigint, entries = task.entries + 1,
    attempts = (before ->> 'attempts')::int, deferrals = (before ->> 'deferrals')::int, undecided = false,
    previous_delay = (before ->> 'previousDelayMs')::bigint, error_class = before ->> 'errorClass',
    error_code = before ->> 'errorCode', error_message = before ->> 'errorMessage', reason = before ->> 'reason',
    payload = coalesce(before ->> 'payload', task.payload), operation = NULL, answered = false,
    failure_state = CASE WHEN failure_group IS NOT NULL THEN redrive.state_dead() END,
    failure_at = CASE WHEN failure_group IS NOT NULL THEN (before ->> 'changedAt')::bigint END,
    blocks = redrive.blocking_lane(task.lane)
  FROM moved_task WHERE task.id = ANY (ARRAY[moved_task.id]);
END
$$;

-- Puts members of an operation back as they were, of a page in the order of their ids: redriven ones that wait and have not
-- run since, and discarded ones, as `afterUndo` of src/store/rules/after-settlement.ts does. Returns {undone, next}.
CREATE OR REPLACE FUNCTION redrive.undo_members(
  of_operation text, after text, up_to int, who text, why text, at bigint
) RETURNS json LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  page text[] := ARRAY(
    SELECT id FROM redrive.task WHERE operation = of_operation AND id > after ORDER BY id LIMIT up_to + 1);
  next text := CASE WHEN cardinality(page) > up_to THEN page[up_to] END;
  redriven text[];
  places tid[];
  discarded text[];
BEGIN
  -- Lock the tasks first, so that settlements under way are on record before their rows are read.
  page := redrive.lock_tasks(page[1 : up_to]);
  page := ARRAY(
    SELECT id FROM redrive.task
    WHERE id = ANY (page) AND operation = of_operation AND NOT redrive.has_items(lane) ORDER BY id);
  -- A task that was claimed and handed back since has run, and its state is younger than its row.
  SELECT coalesce(array_agg(task.id) FILTER (WHERE last.outcome = 'redriven' AND state = redrive.state_running()), '{}'),
    coalesce(array_agg(task.id) FILTER (WHERE last.outcome = 'discarded' AND state = redrive.state_cancelled()), '{}')
  INTO redriven, discarded
  FROM unnest(page) AS one (id)
  JOIN redrive.task ON task.id = ANY (ARRAY[one.id])
  JOIN redrive.ledger AS last ON last.task = ANY (ARRAY[one.id]) AND last.sequence = task.entries
  WHERE last.before IS NOT NULL AND last.ended_at = task.changed_at;
  -- A task that a claim takes meanwhile is left to it.
  places := redrive.lock_waiting(redriven);
  WITH dequeued AS (
    DELETE FROM redrive.waiting WHERE ctid = ANY (places) RETURNING task
  )
  SELECT coalesce(array_agg(task), '{}') INTO redriven FROM dequeued;
  PERFORM redrive.unlist(redrive.state_cancelled(), discarded, ARRAY(
    SELECT task.changed_at FROM unnest(discarded) WITH ORDINALITY AS one (id, place)
    JOIN redrive.task ON task.id = ANY (ARRAY[one.id]) ORDER BY one.place));
  PERFORM redrive.move_in_groups(redriven, redrive.state_running(), redrive.state_dead(), now_ms);
  PERFORM redrive.move_in_groups(discarded, redrive.state_cancelled(), redrive.state_dead(), now_ms);
  PERFORM redrive.restore_dead(redriven || discarded, who, why, now_ms);
  PERFORM redrive.release_keys(redriven, now_ms);
  RETURN json_build_object('undone', cardinality(redriven) + cardinality(discarded), 'next', next);
END
$$;
