-- Groups as settlements make and count them. The twins in TypeScript are `GroupBook` (SQLite) and `MemoryGroups.failed`.

-- The start of an hour.
CREATE OR REPLACE FUNCTION redrive.hour_of(ms bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT ms - ms % 3600000
$$;

-- The group of a kind's lost attempts. The worker's name is no part of it.
CREATE OR REPLACE FUNCTION redrive.lost_group(of_kind text) RETURNS json LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT json_build_object('id', 'lost:' || of_kind, 'kind', of_kind, 'code', 'lost', 'error_name', '',
    'pattern', 'the worker was lost', 'frames', '[]')
$$;

-- The group of failures for which their kind has no more groups.
CREATE OR REPLACE FUNCTION redrive.other_group(of_kind text, of_code text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT 'other:' || of_kind || ':' || left(coalesce(of_code, ''), 100)
$$;

-- How many more groups a kind may have. Those of lost and other failures do not count.
CREATE OR REPLACE FUNCTION redrive.groups_left(of_kind text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  RETURN 1000 - (
    SELECT count(*) FROM (
      SELECT FROM redrive.failure_group
      WHERE kind = of_kind AND NOT starts_with(id, 'other:') AND NOT starts_with(id, 'lost:') LIMIT 1000
    ) AS its_group
  );
END
$$;

-- For how many more codes a kind may have a group of other failures.
CREATE OR REPLACE FUNCTION redrive.other_groups_left(of_kind text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  RETURN greatest(0, 100 - (
    SELECT count(*) FROM (
      SELECT FROM redrive.failure_group WHERE kind = of_kind AND starts_with(id, 'other:') LIMIT 100
    ) AS its_group
  ));
END
$$;

-- Lets nobody else make groups until the transaction has ended, so that a count of them holds: two settlements would else
-- both take the last place. Groups are made so seldom that one lock is enough for all kinds, and one cannot deadlock.
CREATE OR REPLACE FUNCTION redrive.lock_new_groups() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('redrive.failure_group'::regclass::bigint);
END
$$;

-- Whether one of these groups does not exist yet, given as `settle_outcomes` takes them.
CREATE OR REPLACE FUNCTION redrive.is_any_group_missing(groups json) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM json_to_recordset(groups) AS given (id text)
    WHERE (SELECT known.id FROM redrive.failure_group AS known WHERE known.id = given.id) IS NULL
  );
END
$$;

-- Makes the groups that failures of a batch name and that do not exist yet, in the order of their ids, so that nobody
-- deadlocks. Returns the facts of those for which their kind has no more places. The batch is read once, since every failure
-- of a large one may have a group of its own.
CREATE OR REPLACE FUNCTION redrive.make_groups(batch redrive.ended_attempt[], groups json, now_ms bigint)
RETURNS redrive.failure_group[] LANGUAGE plpgsql AS $$
DECLARE
  named constant text[] := ARRAY(SELECT DISTINCT failure_group FROM unnest(batch) WHERE is_failure);
  missing record;
  places int;
  surplus redrive.failure_group[] := '{}';
BEGIN
  FOR missing IN
    SELECT (given.facts).kind, starts_with(given.id, 'lost:') AS is_lost, array_agg(given.facts ORDER BY given.id) AS groups
    FROM (
      SELECT DISTINCT ON (facts.id) facts.id, facts
      FROM json_populate_recordset(NULL::redrive.failure_group, groups) AS facts
      WHERE facts.id = ANY (named)
        AND (SELECT known.id FROM redrive.failure_group AS known WHERE known.id = facts.id) IS NULL
    ) AS given GROUP BY 1, 2 ORDER BY 1, 2
  LOOP
    places := CASE WHEN missing.is_lost THEN 1 ELSE greatest(0, redrive.groups_left(missing.kind)) END;
    -- A kind that is full needs no lock: it would make all its failures wait for each other.
    IF places > 0 AND NOT missing.is_lost THEN
      PERFORM redrive.lock_new_groups();
      places := greatest(0, redrive.groups_left(missing.kind));
    END IF;
    INSERT INTO redrive.failure_group (id, kind, code, error_name, pattern, frames, first_seen)
    SELECT one.id, one.kind, one.code, one.error_name, one.pattern, one.frames, now_ms
    FROM unnest(missing.groups[: places]) AS one
    ON CONFLICT DO NOTHING;
    surplus := surplus || missing.groups[places + 1 :];
  END LOOP;
  RETURN surplus;
END
$$;

-- Makes the groups of other failures with these codes, as far as their kinds have places for them, and else the one group
-- of the rest.
CREATE OR REPLACE FUNCTION redrive.make_other_groups(surplus redrive.failure_group[], now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  missing record;
  places int;
BEGIN
  FOR missing IN
    SELECT given.kind, array_agg(given.code ORDER BY given.id) AS codes FROM (
      SELECT DISTINCT ON (1) redrive.other_group(past.kind, past.code) AS id, past.kind, past.code
      FROM unnest(surplus) AS past
    ) AS given
    WHERE (SELECT known.id FROM redrive.failure_group AS known WHERE known.id = given.id) IS NULL
    GROUP BY 1 ORDER BY 1
  LOOP
    places := redrive.other_groups_left(missing.kind);
    IF places > 0 THEN
      PERFORM redrive.lock_new_groups();
      places := redrive.other_groups_left(missing.kind);
    END IF;
    INSERT INTO redrive.failure_group (id, kind, code, error_name, pattern, frames, first_seen)
    SELECT redrive.other_group(missing.kind, one.code), missing.kind, one.code, '', 'other failures', '[]', now_ms
    FROM unnest(missing.codes[: places] || CASE WHEN cardinality(missing.codes) > places THEN '{""}'::text[] END)
      AS one (code)
    ON CONFLICT DO NOTHING;
  END LOOP;
END
$$;

-- Moves failures of a batch from groups that were not made to those of other failures of their kind. Returns the batch.
CREATE OR REPLACE FUNCTION redrive.to_other_groups(
  batch redrive.ended_attempt[], surplus redrive.failure_group[], now_ms bigint
) RETURNS redrive.ended_attempt[] LANGUAGE plpgsql AS $$
DECLARE
  ids text[];
  others text[];
BEGIN
  PERFORM redrive.make_other_groups(surplus, now_ms);
  -- Looked up before the batch is joined, which would do it for each pair.
  SELECT array_agg(its.id), array_agg(coalesce(
    (SELECT known.id FROM redrive.failure_group AS known WHERE known.id = redrive.other_group(its.kind, its.code)),
    redrive.other_group(its.kind, '')))
  INTO ids, others FROM unnest(surplus) AS its;
  RETURN ARRAY(
    SELECT CASE WHEN past.id IS NULL THEN one ELSE json_populate_record(
      one, json_build_object('failure_group', past.other)) END
    FROM unnest(batch) AS one
    LEFT JOIN unnest(ids, others) AS past (id, other) ON one.is_failure AND past.id = one.failure_group
  );
END
$$;

-- Counts the failures of a batch, and the tasks that change their group or their state in it. They were all running.
CREATE OR REPLACE FUNCTION redrive.count_failures(batch redrive.ended_attempt[], now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO redrive.group_tally (failure_group, hour, seen, retrying, dead, last_seen)
  SELECT change.id, redrive.hour_of(now_ms), sum(change.seen), sum(change.retrying), sum(change.dead),
    CASE WHEN sum(change.seen) > 0 THEN now_ms ELSE 0 END
  FROM unnest(batch) AS one CROSS JOIN LATERAL (VALUES
    (one.last_group, 0, -1, 0),
    (one.failure_group, one.is_failure::int, (one.state = redrive.state_running())::int,
      (one.state = redrive.state_dead())::int)
  ) AS change (id, seen, retrying, dead)
  WHERE change.id IS NOT NULL
  GROUP BY change.id
  HAVING sum(change.seen) <> 0 OR sum(change.retrying) <> 0 OR sum(change.dead) <> 0;
END
$$;

-- The parts of a semantic version, so that they compare as texts, with `~` after all others: a release is later than its
-- pre-releases. NULL if it is none. `versionKey` in TypeScript is the same.
CREATE OR REPLACE FUNCTION redrive.version_key(release text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT ARRAY[lpad(part[1], 15, '0'), lpad(part[2], 15, '0'), lpad(part[3], 15, '0')]
    || CASE WHEN part[4] IS NULL THEN ARRAY['~'] ELSE ARRAY(
      SELECT CASE WHEN pre ~ '^[0-9]{1,15}$' THEN '0' || lpad(pre, 15, '0') ELSE '1' || pre END
      FROM unnest(string_to_array(part[4], '.')) WITH ORDINALITY AS one (pre, n) ORDER BY n
    ) END
  FROM regexp_match(release,
    '^v?([0-9]{1,15})\.([0-9]{1,15})\.([0-9]{1,15})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$') AS part
  WHERE part IS NOT NULL
$$;

-- Whether a release has a fix in it, given the details of the mark: {release, before}. Releases without an order have it
-- if nobody ran them at the time of the mark.
CREATE OR REPLACE FUNCTION redrive.has_fix(of_release text, fix json) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  fixed_in text := fix ->> 'release';
BEGIN
  IF fixed_in IS NULL OR of_release IS NULL THEN
    RETURN fixed_in IS NULL;
  END IF;
  RETURN coalesce(
    redrive.version_key(of_release) >= redrive.version_key(fixed_in) COLLATE "C",
    of_release NOT IN (SELECT json_array_elements_text(fix -> 'before')));
END
$$;

-- Notes the groups that were fixed, and that failures of a batch show to be not. Groups are read without a lock, and
-- written only when they change, in the order of their ids, so that nobody deadlocks.
CREATE OR REPLACE FUNCTION redrive.note_regressions(batch redrive.ended_attempt[], now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  fixed record;
BEGIN
  FOR fixed IN
    SELECT its.id, its.marked_at, its.details::json AS fix FROM redrive.failure_group AS its
    WHERE its.id = ANY (ARRAY(SELECT DISTINCT failure_group FROM unnest(batch) WHERE is_failure)) AND its.life = 'fixed'
    ORDER BY its.id
  LOOP
    UPDATE redrive.failure_group
    SET life = 'regressed', marked_at = now_ms,
      details = json_strip_nulls(json_build_object('release', failed.release, 'fixedIn', fixed.fix -> 'release'))::text
    FROM (
      SELECT release FROM unnest(batch)
      WHERE is_failure AND failure_group = fixed.id AND began > fixed.marked_at AND redrive.has_fix(release, fixed.fix)
      ORDER BY n LIMIT 1
    ) AS failed
    WHERE id = fixed.id AND life = 'fixed' AND failure_group.marked_at = fixed.marked_at;
  END LOOP;
END
$$;

-- Writes the life of a group.
CREATE OR REPLACE FUNCTION redrive.mark_group(
  of_id text, new_life text, at_ms bigint, by_who text, for_why text, new_details text
) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
  UPDATE redrive.failure_group
  SET life = new_life, marked_at = at_ms, who = by_who, why = for_why, details = new_details WHERE id = of_id;
END
$$;

-- Counts tasks that go from one state to another and stay in their groups; to NULL, they leave their groups.
CREATE OR REPLACE FUNCTION redrive.move_in_groups(ids text[], from_state int, to_state int, now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO redrive.group_tally (failure_group, hour, retrying, dead)
  SELECT failure_group, redrive.hour_of(now_ms),
    count(*) * (coalesce(to_state = redrive.state_running(), false)::int - (from_state = redrive.state_running())::int),
    count(*) * (coalesce(to_state = redrive.state_dead(), false)::int - (from_state = redrive.state_dead())::int)
  FROM redrive.task WHERE id = ANY (ids) AND failure_group IS NOT NULL
  GROUP BY failure_group;
END
$$;

-- Takes running tasks out of their groups.
CREATE OR REPLACE FUNCTION redrive.leave_groups(ids text[], now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM redrive.move_in_groups(ids, redrive.state_running(), NULL, now_ms);
  UPDATE redrive.task SET failure_group = NULL, failure_state = NULL, failure_at = NULL WHERE id = ANY (ids);
END
$$;

-- Adds up figures of groups: those of the last hours, where there are many rows, and those of more than a week ago.
CREATE OR REPLACE FUNCTION redrive.fold_groups(now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  fresh bigint := redrive.hour_of(now_ms) - 3600000;
  old bigint := now_ms - 7 * 24 * 3600000;
BEGIN
  IF (
    SELECT count(*) < 64 + 2 * count(DISTINCT (hour, failure_group)) FROM redrive.group_tally WHERE hour >= fresh
  ) AND NOT EXISTS (SELECT FROM redrive.group_tally WHERE hour > 0 AND hour < old) THEN
    RETURN;
  END IF;
  WITH folded_row AS (
    DELETE FROM redrive.group_tally WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM redrive.group_tally WHERE hour >= fresh OR hour < old FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
  )
  INSERT INTO redrive.group_tally (failure_group, hour, seen, retrying, dead, last_seen)
  SELECT failure_group, CASE WHEN hour < old THEN 0 ELSE hour END, sum(seen), sum(retrying), sum(dead), max(last_seen)
  FROM folded_row GROUP BY 1, 2;
END
$$;

-- Deletes groups without tasks that were last seen up to a time. A letter that was discarded names its group, and may come back.
CREATE OR REPLACE FUNCTION redrive.prune_groups(before bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  idle text[] := ARRAY(
    SELECT its.id FROM redrive.failure_group AS its
    LEFT JOIN redrive.group_tally AS tally ON tally.failure_group = ANY (ARRAY[its.id])
    WHERE its.first_seen <= before
    GROUP BY its.id
    HAVING coalesce(max(tally.last_seen), 0) <= before AND coalesce(sum(retrying), 0) = 0 AND coalesce(sum(dead), 0) = 0);
BEGIN
  idle := ARRAY(
    SELECT known.id FROM unnest(idle) AS known (id)
    WHERE NOT EXISTS (
      SELECT FROM redrive.task WHERE failure_group = ANY (ARRAY[known.id]) AND failure_state IS NOT NULL
    ));
  DELETE FROM redrive.group_tally WHERE failure_group = ANY (idle);
  DELETE FROM redrive.failure_group WHERE id = ANY (idle);
END
$$;
