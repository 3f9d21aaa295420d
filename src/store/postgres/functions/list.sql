-- Whether a lane matches. NULL matches everything.
CREATE OR REPLACE FUNCTION redrive.matches_lane(of_lane bigint, of_kind text, of_category text, of_key text)
RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT (of_kind IS NULL OR lane.kind = of_kind)
    AND (of_category IS NULL OR lane.category = of_category)
    AND (of_key IS NULL OR lane.key = of_key)
  FROM redrive.lane WHERE lane.id = of_lane
$$;

-- The lanes that match. NULL: all lanes do, or too many to be looked for one by one.
CREATE OR REPLACE FUNCTION redrive.few_lanes(of_kind text, of_category text, of_key text) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  few bigint[];
BEGIN
  IF of_key <> '' THEN
    few := ARRAY(SELECT id FROM redrive.lane WHERE lane.key = of_key AND lane.key <> ''
      AND (of_kind IS NULL OR lane.kind = of_kind) AND (of_category IS NULL OR lane.category = of_category) LIMIT 51);
  ELSIF of_kind IS NOT NULL THEN
    few := ARRAY(SELECT id FROM redrive.lane WHERE lane.kind = of_kind
      AND (of_category IS NULL OR lane.category = of_category) AND (of_key IS NULL OR lane.key = of_key) LIMIT 51);
  END IF;
  RETURN CASE WHEN cardinality(few) <= 50 THEN few END;
END
$$;

-- A page of the tasks that ended in a state, the newest first, from before the last one of the page before. NULL
-- matches everything. An error that few tasks have leads to them. Otherwise it walks back in time, batch by batch, and stops
-- when the page is full: only tasks that ended together are sorted, and batches of other lanes are passed over as a whole.
-- The order of the joins is fixed, since the planner cannot know how few batches fill a page.
CREATE OR REPLACE FUNCTION redrive.ended_page(
  of_state int, of_kind text, of_category text, of_key text, of_error text, before bigint, before_id text, up_to bigint
) RETURNS SETOF redrive.task LANGUAGE plpgsql STABLE /* patient verb */ SET enable_sort = off AS $$
DECLARE
  wanted bigint[] := redrive.few_lanes(of_kind, of_category, of_key);
BEGIN
  -- A success, or a skip, has cleared the error.
  IF wanted = '{}' OR of_error IS NOT NULL AND of_state NOT IN (redrive.state_dead(), redrive.state_cancelled()) THEN
    RETURN;
  END IF;
  IF (SELECT count(*) FROM (SELECT FROM redrive.task WHERE error_code = of_error LIMIT 2001) AS found) <= 2000
    AND of_error IS NOT NULL
  THEN
    RETURN QUERY SELECT * FROM redrive.task
    WHERE error_code = of_error AND state = of_state AND coalesce((changed_at, id) < (before, before_id), true)
      AND redrive.matches_lane(lane, of_kind, of_category, of_key)
    ORDER BY changed_at DESC, id DESC LIMIT up_to;
    RETURN;
  END IF;
  RETURN QUERY SELECT task.* FROM (
    SELECT ended.at, one.id FROM redrive.ended CROSS JOIN unnest(ended.tasks) AS one (id)
    WHERE ended.state = of_state AND ended.at <= coalesce(before, 9223372036854775807)
      AND coalesce((ended.at, one.id) < (before, before_id), true)
      AND CASE
        WHEN wanted IS NOT NULL THEN ended.task_lanes && wanted
        WHEN cardinality(ended.task_lanes) = 1 THEN redrive.matches_lane(ended.task_lanes[1], of_kind, of_category, of_key)
        ELSE true
      END
    ORDER BY ended.at DESC, one.id DESC
  ) AS listed
  CROSS JOIN LATERAL (
    SELECT own.* FROM redrive.task AS own
    WHERE own.id = listed.id AND own.state = of_state AND own.changed_at = listed.at
      AND (of_error IS NULL OR own.error_code = of_error)
      AND (own.lane = ANY (wanted) OR wanted IS NULL AND redrive.matches_lane(own.lane, of_kind, of_category, of_key))
    OFFSET 0
  ) AS task
  LIMIT up_to;
END
$$;

-- A page of the tasks that were retried after a failure since then, in the order of their ids, as JSON. It walks through
-- the ledger in the order of its key: an index for this would make every settlement slower.
CREATE OR REPLACE FUNCTION redrive.retried(since bigint, after text, up_to int) RETURNS text LANGUAGE plpgsql STABLE
/* patient verb */ SET enable_hashagg = off SET enable_sort = off AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(json_build_object(
      'id', its.id, 'kind', (SELECT lane.kind FROM redrive.lane WHERE lane.id = its.lane),
      'hasSucceeded', its.state = redrive.state_succeeded(), 'ends', (
        SELECT json_agg(json_build_object(
          'outcome', outcome, 'attempt', attempt, 'endedAt', ended_at, 'category', coalesce(category, ''),
          'policy', coalesce(policy, ''), 'code', coalesce(error_code, '')) ORDER BY sequence)
        FROM redrive.ledger WHERE ledger.task = its.id
      )
    ) ORDER BY page.task), '[]')
    FROM (
      SELECT DISTINCT failed.task FROM redrive.ledger AS failed
      WHERE failed.task > after AND failed.outcome = 'retry' AND failed.ended_at >= since
      ORDER BY failed.task LIMIT up_to
    ) AS page
    CROSS JOIN LATERAL (
      SELECT task.id, task.lane, task.state FROM redrive.task WHERE task.id = page.task OFFSET 0
    ) AS its
  );
END
$$;
