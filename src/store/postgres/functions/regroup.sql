-- Gives the figures and the life of a group to its heir, which is made if it does not exist, however many its kind has.
CREATE OR REPLACE FUNCTION redrive.inherit_group(left_id text, heir json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  heir_id text := heir ->> 'id';
  own_seen bigint;
BEGIN
  INSERT INTO redrive.failure_group (id, kind, code, error_name, pattern, frames, first_seen)
  SELECT given.id, given.kind, given.code, given.error_name, given.pattern, given.frames, its.first_seen
  FROM redrive.failure_group AS its CROSS JOIN json_to_record(heir)
    AS given (id text, kind text, code text, error_name text, pattern text, frames text)
  WHERE its.id = left_id
  ON CONFLICT DO NOTHING;
  -- In the order of their ids, so that nobody deadlocks.
  PERFORM FROM redrive.failure_group WHERE id = ANY (ARRAY[left_id, heir_id]) ORDER BY id FOR UPDATE;
  own_seen := (SELECT coalesce(sum(seen), 0) FROM redrive.group_tally WHERE failure_group = heir_id);
  UPDATE redrive.failure_group AS its
  SET first_seen = least(its.first_seen, gone.first_seen) FROM redrive.failure_group AS gone
  WHERE its.id = heir_id AND gone.id = left_id;
  UPDATE redrive.failure_group AS its
  SET life = gone.life, marked_at = gone.marked_at, who = gone.who, why = gone.why,
    -- Further failures are counted from the mark on.
    details = CASE WHEN gone.life = 'ignored'
      THEN jsonb_set(gone.details::jsonb, '{seen}', to_jsonb((gone.details::jsonb ->> 'seen')::bigint + own_seen))::text
      ELSE gone.details END
  FROM redrive.failure_group AS gone
  WHERE its.id = heir_id AND gone.id = left_id AND its.life IS NULL AND gone.life IS NOT NULL;
  WITH figures AS (
    DELETE FROM redrive.group_tally WHERE failure_group = left_id RETURNING *
  )
  INSERT INTO redrive.group_tally (failure_group, hour, seen, retrying, dead, last_seen)
  SELECT left_id, 0, 0, sum(retrying), sum(dead), 0 FROM figures HAVING count(*) > 0
  UNION ALL
  SELECT heir_id, hour, sum(seen), 0, 0, max(last_seen) FROM figures GROUP BY hour HAVING sum(seen) > 0;
END
$$;

-- Makes those of these groups that are needed and do not exist, as far as their kinds have room. In the order of their ids, so
-- that nobody deadlocks.
CREATE OR REPLACE FUNCTION redrive.make_needed_groups(groups json, needed text[], now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  facts record;
BEGIN
  FOR facts IN
    SELECT * FROM json_to_recordset(groups)
      AS given (id text, kind text, code text, error_name text, pattern text, frames text)
    WHERE given.id = ANY (needed)
    ORDER BY given.id COLLATE "C"
  LOOP
    INSERT INTO redrive.failure_group (id, kind, code, error_name, pattern, frames, first_seen)
    SELECT facts.id, facts.kind, facts.code, facts.error_name, facts.pattern, facts.frames, now_ms
    WHERE NOT EXISTS (SELECT FROM redrive.failure_group WHERE id = facts.id) AND redrive.groups_left(facts.kind) > 0
    ON CONFLICT DO NOTHING;
  END LOOP;
END
$$;

-- Moves tasks that are locked to other groups, with the last failure in their ledger. Given column by column; the heir does not count their
-- failures, since it has those of the group that they leave. Returns how many were moved.
CREATE OR REPLACE FUNCTION redrive.move_to_groups(left_id text, heir_id text, ids text[], targets text[]) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  moved int;
BEGIN
  WITH moved_task AS (
    UPDATE redrive.task SET failure_group = one.target
    FROM unnest(ids, targets) AS one (id, target)
    WHERE task.id = ANY (ARRAY[one.id])
      AND EXISTS (SELECT FROM redrive.failure_group AS its WHERE its.id = one.target)
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
  ), seen_first AS (
    UPDATE redrive.failure_group AS its SET first_seen = first.at
    FROM (SELECT target, min(ended_at) AS at FROM renamed GROUP BY target) AS first
    WHERE its.id = ANY (ARRAY[first.target]) AND its.first_seen > first.at
  )
  SELECT count(*) INTO moved FROM renamed;
  RETURN moved;
END
$$;

-- Moves tasks from one group to others, whose facts are in `groups`; `heir` has those of the group that most of them go to, or
-- is NULL. Returns how many were moved.
CREATE OR REPLACE FUNCTION redrive.regroup(
  left_id text, heir json, groups json, ids text[], targets text[], at bigint
) RETURNS int LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  is_succeeded boolean := coalesce(heir ->> 'id' <> left_id, false);
  moved int;
BEGIN
  -- Tasks before groups, as settlements lock them.
  SELECT array_agg(one.id), array_agg(one.target) INTO ids, targets FROM (
    -- One by one, in the order of their ids, so that the group is never read as a whole and nobody deadlocks.
    SELECT its.id, given.target
    FROM (SELECT * FROM unnest(ids, targets) AS one (id, target) WHERE one.target <> left_id ORDER BY one.id) AS given
    CROSS JOIN LATERAL (
      SELECT task.id, task.failure_group, task.failure_state FROM redrive.task WHERE task.id = given.id
      OFFSET 0 FOR UPDATE OF task
    ) AS its
    WHERE its.failure_group = left_id AND its.failure_state IS NOT NULL
  ) AS one;
  -- Before any group is locked, as settlements do.
  PERFORM redrive.lock_new_groups();
  IF is_succeeded THEN
    PERFORM redrive.inherit_group(left_id, heir);
  END IF;
  PERFORM redrive.make_needed_groups(groups, targets, redrive.now_ms(at));
  moved := redrive.move_to_groups(left_id, heir ->> 'id', ids, targets);
  -- A letter that was discarded names its group, and may come back.
  IF is_succeeded AND (
    SELECT coalesce(sum(seen), 0) = 0 FROM redrive.group_tally WHERE failure_group = left_id
  ) AND NOT EXISTS (
    SELECT FROM redrive.task WHERE failure_group = ANY (ARRAY[left_id]) AND failure_state IS NOT NULL
  ) THEN
    DELETE FROM redrive.group_tally WHERE failure_group = left_id;
    DELETE FROM redrive.failure_group WHERE id = left_id;
  END IF;
  RETURN moved;
END
$$;

-- The rules about groups, and the last grouping that all groups were gone through for, as JSON: {rules, regrouped}.
CREATE OR REPLACE FUNCTION redrive.group_rules() RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
  RETURN json_build_object(
    'rules', (SELECT coalesce(json_agg(its ORDER BY its.id), '[]') FROM redrive.group_rule AS its),
    'regrouped', (SELECT its.grouping FROM redrive.regrouped AS its)
  )::text;
END
$$;

-- Adds a rule. Returns its id.
CREATE OR REPLACE FUNCTION redrive.add_rule(of_kind text, of_pattern text, at_ms bigint, by_who text, for_why text)
RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
DECLARE
  new_id bigint;
BEGIN
  INSERT INTO redrive.group_rule (kind, pattern, at, who, why) VALUES (of_kind, of_pattern, at_ms, by_who, for_why)
  RETURNING id INTO new_id;
  RETURN new_id;
END
$$;

-- Keeps others from changing the rules until the transaction ends.
CREATE OR REPLACE FUNCTION redrive.lock_rules() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
  LOCK TABLE redrive.group_rule IN SHARE ROW EXCLUSIVE MODE;
END
$$;

-- Removes a rule.
CREATE OR REPLACE FUNCTION redrive.remove_rule(of_id bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
  DELETE FROM redrive.group_rule WHERE id = of_id;
END
$$;

-- Notes that all groups were gone through for a grouping.
CREATE OR REPLACE FUNCTION redrive.note_regrouped(of_grouping text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
  INSERT INTO redrive.regrouped (id, grouping) VALUES (1, of_grouping)
  ON CONFLICT (id) DO UPDATE SET grouping = excluded.grouping;
END
$$;
