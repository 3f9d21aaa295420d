-- Locks these groups, in the order of their ids so that nobody deadlocks, and keeps others from making new ones.
CREATE OR REPLACE FUNCTION redrive.lock_groups(ids text[]) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  -- Before any group is locked, as settlements do.
  PERFORM redrive.lock_new_groups();
  PERFORM FROM redrive.failure_group WHERE id = ANY (ids) ORDER BY id FOR UPDATE;
END
$$;

-- Locks those of these tasks that are in a group, and returns their ids. One by one, in the order of their ids, so that the
-- group is never read as a whole and nobody deadlocks.
CREATE OR REPLACE FUNCTION redrive.lock_group_members(of_group text, ids text[]) RETURNS text[]
LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  RETURN ARRAY(
    SELECT its.id
    FROM (SELECT DISTINCT one.id FROM unnest(ids) AS one (id) ORDER BY 1) AS given
    CROSS JOIN LATERAL (
      SELECT task.id, task.failure_group, task.failure_state FROM redrive.task WHERE task.id = given.id
      OFFSET 0 FOR UPDATE OF task
    ) AS its
    WHERE its.failure_group = of_group AND its.failure_state IS NOT NULL
  );
END
$$;

-- Makes groups without figures, given as `settle_outcomes` takes them, in the order of their ids so that nobody deadlocks.
CREATE OR REPLACE FUNCTION redrive.add_groups(groups json, seen_at bigint) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  INSERT INTO redrive.failure_group (id, kind, code, error_name, pattern, frames, first_seen)
  SELECT id, kind, code, error_name, pattern, frames, seen_at
  FROM json_populate_recordset(NULL::redrive.failure_group, groups)
  ORDER BY id ON CONFLICT DO NOTHING;
END
$$;

-- Gives the failures of a group to its heir. Its tasks stay.
CREATE OR REPLACE FUNCTION redrive.inherit_failures(left_id text, heir_id text) RETURNS void
LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  UPDATE redrive.failure_group AS its
  SET first_seen = least(its.first_seen, gone.first_seen) FROM redrive.failure_group AS gone
  WHERE its.id = heir_id AND gone.id = left_id;
  WITH figures AS (
    DELETE FROM redrive.group_tally WHERE failure_group = left_id RETURNING *
  )
  INSERT INTO redrive.group_tally (failure_group, hour, seen, retrying, dead, last_seen)
  SELECT left_id, 0, 0, sum(retrying), sum(dead), 0 FROM figures HAVING count(*) > 0
  UNION ALL
  SELECT heir_id, hour, sum(seen), 0, 0, max(last_seen) FROM figures GROUP BY hour HAVING sum(seen) > 0;
END
$$;

-- Moves tasks of a group that are locked to other groups, with the last failure in their ledger. Given column by column; the
-- heir does not count their failures, since it has those of the group that they leave.
CREATE OR REPLACE FUNCTION redrive.move_to_groups(left_id text, heir_id text, ids text[], targets text[]) RETURNS void
LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  WITH moved_task AS (
    UPDATE redrive.task SET failure_group = one.target
    FROM unnest(ids, targets) AS one (id, target)
    WHERE task.id = ANY (ARRAY[one.id])
    RETURNING task.id, one.target, task.failure_state
  ), renamed AS (
    UPDATE redrive.ledger SET failure_group = moved_task.target
    FROM moved_task
    WHERE ledger.task = ANY (ARRAY[moved_task.id]) AND ledger.sequence = (
      SELECT max(last.sequence) FROM redrive.ledger AS last WHERE last.task = moved_task.id AND last.failure_group = left_id)
    RETURNING moved_task.target, moved_task.failure_state, ledger.ended_at
  ), tallied AS (
    INSERT INTO redrive.group_tally (failure_group, hour, seen, retrying, dead, last_seen)
    SELECT target, redrive.hour_of(ended_at), CASE WHEN target IS DISTINCT FROM heir_id THEN count(*) ELSE 0 END,
      count(*) FILTER (WHERE failure_state = redrive.state_running()),
      count(*) FILTER (WHERE failure_state = redrive.state_dead()),
      CASE WHEN target IS DISTINCT FROM heir_id THEN max(ended_at) ELSE 0 END
    FROM renamed GROUP BY target, redrive.hour_of(ended_at)
    UNION ALL
    SELECT left_id, 0, 0, -count(*) FILTER (WHERE failure_state = redrive.state_running()),
      -count(*) FILTER (WHERE failure_state = redrive.state_dead()), 0
    FROM renamed HAVING count(*) > 0
  )
  UPDATE redrive.failure_group AS its SET first_seen = first.at
  FROM (SELECT target, min(ended_at) AS at FROM renamed WHERE target IS DISTINCT FROM heir_id GROUP BY target) AS first
  WHERE its.id = ANY (ARRAY[first.target]) AND its.first_seen > first.at;
END
$$;

-- Forgets a group that has given its failures to its heir, unless one came meanwhile or a task names it. A letter that was
-- discarded does, and may come back.
CREATE OR REPLACE FUNCTION redrive.forget_group(of_id text) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  IF (
    SELECT coalesce(sum(seen), 0) = 0 FROM redrive.group_tally WHERE failure_group = of_id
  ) AND NOT EXISTS (
    SELECT FROM redrive.task WHERE failure_group = ANY (ARRAY[of_id]) AND failure_state IS NOT NULL
  ) THEN
    DELETE FROM redrive.group_tally WHERE failure_group = of_id;
    DELETE FROM redrive.failure_group WHERE id = of_id;
  END IF;
END
$$;
