-- Lanes of runs have ids from here on.
CREATE OR REPLACE FUNCTION redrive.first_run_lane() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
'SELECT 1099511627776';

-- An id for a new lane. Lanes without a key have negative ones.
CREATE OR REPLACE FUNCTION redrive.new_lane_id(kind text, key text) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT CASE
    WHEN key = '' THEN -nextval('redrive.lane_id')
    WHEN starts_with(kind, 'pipeline:') THEN redrive.first_run_lane() + nextval('redrive.lane_id')
    ELSE nextval('redrive.lane_id') END
$$;

-- Whether the tasks of a lane are items of a run.
CREATE OR REPLACE FUNCTION redrive.has_items(lane bigint) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
'SELECT lane >= redrive.first_run_lane()';

-- A lane if its tasks are items of a run, NULL otherwise.
CREATE OR REPLACE FUNCTION redrive.item_lane(lane bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN redrive.has_items(lane) THEN lane END
$$;

-- Lists items that have succeeded, where their run is to be written out.
CREATE OR REPLACE FUNCTION redrive.add_outputs(ids text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO redrive.run_output (run, task)
  SELECT run.id, item.id FROM unnest(ids) AS item (id)
  JOIN redrive.task ON task.id = ANY (ARRAY[item.id])
  JOIN redrive.lane ON lane.id = ANY (ARRAY[task.lane])
  JOIN redrive.run ON run.id = ANY (ARRAY[lane.key])
  WHERE run.has_output
  ON CONFLICT DO NOTHING;
END
$$;

-- The runs and stages of those tasks that are items, as their lanes tell, and when each reached its state: a JSON array of
-- {id, run, stage, changed_at}.
CREATE OR REPLACE FUNCTION redrive.item_runs(ids text[]) RETURNS json LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(json_build_object(
      'id', task.id, 'run', lane.key, 'stage', lane.category, 'changed_at', task.changed_at)), '[]')
    FROM redrive.task JOIN redrive.lane ON lane.id = ANY (ARRAY[task.lane])
    WHERE task.id = ANY (ids) AND redrive.has_items(task.lane)
  );
END
$$;

-- Opens a run, given as JSON. Returns false if its id is taken.
CREATE OR REPLACE FUNCTION redrive.open_run(record json) RETURNS boolean LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  INSERT INTO redrive.run SELECT * FROM json_populate_record(NULL::redrive.run, record) ON CONFLICT DO NOTHING;
  RETURN FOUND;
END
$$;

-- Locks a run. Returns its state and the time, as {state, now}, or NULL if there is none.
CREATE OR REPLACE FUNCTION redrive.lock_run(of_id text, at bigint) RETURNS json LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  found_state text;
BEGIN
  SELECT run.state INTO found_state FROM redrive.run WHERE run.id = of_id AND NOT run.forgotten FOR UPDATE;
  RETURN CASE WHEN FOUND THEN json_build_object('state', found_state, 'now', redrive.now_ms(at)) END;
END
$$;

-- Writes a run that is locked, given as JSON.
CREATE OR REPLACE FUNCTION redrive.save_run(record json) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  UPDATE redrive.run
  SET ended_at = given.ended_at, dead = given.dead, next_check = given.next_check, state = given.state
  FROM json_populate_record(NULL::redrive.run, record) AS given
  WHERE run.id = ANY (ARRAY[given.id]);
END
$$;

-- How many items of a run are in each status, by stage: a JSON array of {category, waiting, running, …}.
CREATE OR REPLACE FUNCTION redrive.run_counts(of_kind text, of_key text) RETURNS json LANGUAGE plpgsql STABLE
/* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(stage ORDER BY stage.id), '[]') FROM (
      SELECT lane.id, lane.category, counts.*
      FROM redrive.lane CROSS JOIN LATERAL (
        SELECT coalesce(sum(waiting), 0) AS waiting, coalesce(sum(running), 0) AS running,
          coalesce(sum(succeeded), 0) AS succeeded, coalesce(sum(skipped), 0) AS skipped,
          coalesce(sum(dead), 0) AS dead, coalesce(sum(cancelled), 0) AS cancelled
        FROM redrive.tally WHERE tally.lane = ANY (ARRAY[lane.id])
      ) AS counts
      WHERE redrive.has_items(lane.id) AND lane.key = of_key AND lane.kind = of_kind
    ) AS stage
  );
END
$$;

-- A page of the runs that were created before a place, the newest first: {now, runs}, where each run has its state and
-- counts. With an id, that run alone. NULL matches everything.
CREATE OR REPLACE FUNCTION redrive.read_runs(
  of_id text, of_pipeline text, before bigint, before_id text, up_to bigint, at bigint
) RETURNS text LANGUAGE plpgsql STABLE /* verb */ AS $$
DECLARE
  runs json;
BEGIN
  IF of_id IS NOT NULL THEN
    SELECT json_agg(json_build_object('state', run.state, 'counts', redrive.run_counts('pipeline:' || pipeline, id)))
    INTO runs FROM redrive.run WHERE id = of_id AND NOT forgotten;
  ELSE
    SELECT json_agg(json_build_object('state', page.state, 'counts', redrive.run_counts('pipeline:' || pipeline, id)))
    INTO runs FROM (
      SELECT run.id, run.pipeline, run.state FROM redrive.run
      WHERE (run.created_at, run.id) < (before, before_id) AND NOT run.forgotten
        AND (of_pipeline IS NULL OR run.pipeline = of_pipeline)
      ORDER BY run.created_at DESC, run.id DESC LIMIT up_to
    ) AS page;
  END IF;
  RETURN json_build_object('now', redrive.now_ms(at), 'runs', coalesce(runs, '[]'))::text;
END
$$;

-- Notes the positions of items that have ids of their own.
CREATE OR REPLACE FUNCTION redrive.add_items(of_run text, positions bigint[], ids text[]) RETURNS void LANGUAGE plpgsql
/* verb */ AS $$
BEGIN
  INSERT INTO redrive.run_item (run, position, task)
  SELECT of_run, item.position, item.id FROM unnest(positions, ids) AS item (position, id);
END
$$;

-- Takes back the pause of a run: its lanes are as paused as the other rules say.
CREATE OR REPLACE FUNCTION redrive.end_pause(of_kind text, of_key text) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  PERFORM redrive.lock_lane_rules(of_kind);
  DELETE FROM redrive.pause_rule WHERE kind = of_kind AND category IS NULL AND key = of_key;
  UPDATE redrive.lane
  SET paused = coalesce((
    SELECT rule.paused FROM redrive.pause_rule AS rule
    WHERE rule.kind = lane.kind
      AND coalesce(rule.category = lane.category, true)
      AND coalesce(rule.key = lane.key, true)
    ORDER BY rule.id DESC LIMIT 1
  ), false)
  WHERE redrive.has_items(id) AND key = of_key AND kind = of_kind;
END
$$;

-- The lanes of runs that match. NULL matches everything. Runs that are being forgotten have none.
CREATE OR REPLACE FUNCTION redrive.run_lanes(of_kind text, of_key text, of_category text) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF of_key IS NOT NULL THEN
    RETURN ARRAY(
      SELECT lane.id FROM redrive.lane
      WHERE lane.key = of_key AND redrive.has_items(lane.id) AND lane.kind = of_kind
        AND (of_category IS NULL OR lane.category = of_category)
        AND EXISTS (SELECT FROM redrive.run WHERE run.id = of_key AND NOT run.forgotten)
    );
  END IF;
  RETURN ARRAY(
    SELECT lane.id FROM redrive.lane
    WHERE lane.kind = of_kind AND redrive.has_items(lane.id)
      AND (of_category IS NULL OR lane.category = of_category)
      AND EXISTS (SELECT FROM redrive.run WHERE run.id = ANY (ARRAY[lane.key]) AND NOT run.forgotten)
  );
END
$$;

-- The ids of up to `up_to` dead items that match, as a JSON array. NULL matches everything.
CREATE OR REPLACE FUNCTION redrive.dead_items(
  of_kind text, of_key text, of_category text, of_error text, until bigint, up_to bigint
) RETURNS json LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(id), '[]') FROM (
      SELECT task.id
      FROM unnest(redrive.run_lanes(of_kind, of_key, of_category)) AS of_lane
      CROSS JOIN LATERAL (
        SELECT ended.at, ended.tasks FROM redrive.ended
        WHERE ended.lane = of_lane AND ended.state = redrive.state_dead() AND ended.at <= until OFFSET 0
      ) AS batch
      CROSS JOIN unnest(batch.tasks) AS item (id)
      JOIN redrive.task ON task.id = ANY (ARRAY[item.id]) AND task.state = redrive.state_dead()
        AND task.changed_at = batch.at AND task.lane = of_lane
      WHERE of_error IS NULL OR task.error_code = of_error
      LIMIT up_to
    ) AS dead
  );
END
$$;

-- The ids of up to `up_to` waiting items that match, as a JSON array. NULL matches everything.
CREATE OR REPLACE FUNCTION redrive.waiting_items(
  of_kind text, of_key text, of_category text, of_error text, up_to bigint
) RETURNS json LANGUAGE plpgsql STABLE /* verb */ AS $$
DECLARE
  lanes bigint[] := redrive.run_lanes(of_kind, of_key, of_category);
BEGIN
  RETURN (
    SELECT coalesce(json_agg(id), '[]') FROM (
      SELECT task.id FROM (
        -- Lane by lane: a plan from when there were few tasks may walk the whole index of those that are ready.
        SELECT ready.task FROM unnest(lanes) AS its (lane) CROSS JOIN LATERAL (
          SELECT task FROM redrive.waiting WHERE state = redrive.state_ready() AND lane = its.lane OFFSET 0
        ) AS ready
        UNION ALL
        SELECT task FROM redrive.waiting WHERE state = redrive.state_scheduled() AND lane = ANY (lanes)
        UNION ALL
        SELECT task FROM redrive.waiting WHERE state = redrive.state_budgeted() AND lane = ANY (lanes)
        UNION ALL
        SELECT task FROM redrive.waiting WHERE state = redrive.state_alone() AND lane = ANY (lanes)
      ) AS item
      JOIN redrive.task ON task.id = ANY (ARRAY[item.task])
      WHERE of_error IS NULL OR task.error_code = of_error
      LIMIT up_to
    ) AS waits
  );
END
$$;

-- The ids of running items of a run that nobody has asked to cancel yet, as a JSON array.
CREATE OR REPLACE FUNCTION redrive.running_items(of_kind text, of_key text) RETURNS json LANGUAGE plpgsql STABLE
/* verb */ AS $$
DECLARE
  lanes bigint[] := redrive.run_lanes(of_kind, of_key, NULL);
BEGIN
  RETURN (
    SELECT coalesce(json_agg(task.id), '[]')
    FROM redrive.claim CROSS JOIN unnest(claim.tasks, claim.rounds) AS one (id, round)
    JOIN redrive.task ON task.id = ANY (ARRAY[one.id]) AND task.round = one.round
    WHERE task.state = redrive.state_running() AND task.lane = ANY (lanes) AND NOT task.cancel_requested
  );
END
$$;

-- Moves waiting items to another category.
CREATE OR REPLACE FUNCTION redrive.move_items(ids text[], to_category text) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  places tid[];
BEGIN
  ids := redrive.lock_tasks(ids);
  places := redrive.lock_waiting(ids);
  PERFORM redrive.make_lanes((
    SELECT coalesce(json_agg(DISTINCT jsonb_build_object('kind', kind, 'category', to_category, 'key', key)), '[]')
    FROM redrive.lane WHERE id = ANY (ARRAY(SELECT DISTINCT task.lane FROM redrive.task WHERE task.id = ANY (ids)))
  ));
  WITH target AS MATERIALIZED (
    SELECT waiting.ctid AS place, task.id, task.lane AS from_lane, (
      SELECT its.id FROM redrive.lane AS its
      WHERE its.kind = origin.kind AND its.category = to_category AND its.key = origin.key
    ) AS to_lane
    FROM redrive.waiting JOIN redrive.task ON task.id = ANY (ARRAY[waiting.task])
    JOIN redrive.lane AS origin ON origin.id = ANY (ARRAY[task.lane])
    WHERE waiting.ctid = ANY (places)
  ), queued AS (
    UPDATE redrive.waiting SET lane = target.to_lane FROM target WHERE waiting.ctid = target.place
  ), written AS (
    UPDATE redrive.task SET lane = target.to_lane FROM target WHERE task.id = ANY (ARRAY[target.id])
  )
  INSERT INTO redrive.tally (lane, waiting)
  SELECT change.lane, sum(change.waiting)
  FROM (SELECT from_lane, -1 FROM target UNION ALL SELECT to_lane, 1 FROM target) AS change (lane, waiting)
  GROUP BY change.lane;
END
$$;

-- How many items of a run died of which error in which stage since a time: a JSON array of {error_code, stage, count}.
CREATE OR REPLACE FUNCTION redrive.deaths(of_kind text, of_key text, of_category text, since bigint) RETURNS json
LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(death), '[]') FROM (
      SELECT task.error_code, (SELECT lane.category FROM redrive.lane WHERE lane.id = of_lane) AS stage, count(*)
      FROM unnest(redrive.run_lanes(of_kind, of_key, of_category)) AS of_lane
      CROSS JOIN LATERAL (
        SELECT ended.at, ended.tasks FROM redrive.ended
        WHERE ended.lane = of_lane AND ended.state = redrive.state_dead() AND ended.at >= since OFFSET 0
      ) AS batch
      CROSS JOIN unnest(batch.tasks) AS item (id)
      JOIN redrive.task ON task.id = ANY (ARRAY[item.id]) AND task.state = redrive.state_dead()
        AND task.changed_at = batch.at AND task.lane = of_lane
      GROUP BY of_lane, task.error_code
    ) AS death
  );
END
$$;

-- Notes that items were written out.
CREATE OR REPLACE FUNCTION redrive.remove_outputs(of_run text, ids text[]) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  DELETE FROM redrive.run_output WHERE run = of_run AND task = ANY (ids);
END
$$;
