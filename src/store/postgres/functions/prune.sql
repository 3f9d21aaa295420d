-- Those of these tasks that are dead and block their lane, in their order.
CREATE OR REPLACE FUNCTION redrive.blocking_letters(ids text[]) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN ARRAY(
    SELECT letter.id FROM unnest(ids) WITH ORDINALITY AS one (id, place)
    JOIN redrive.task AS letter ON letter.id = ANY (ARRAY[one.id])
    JOIN redrive.lane AS its ON its.id = ANY (ARRAY[letter.blocks])
    WHERE letter.state = redrive.state_dead() AND its.blocking ORDER BY one.place);
END
$$;

-- Whether any dead letter may block its lane.
CREATE OR REPLACE FUNCTION redrive.is_any_blocking() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM redrive.task WHERE blocks IS NOT NULL);
END
$$;

-- Those of these tasks that are members of a batch, in their order.
CREATE OR REPLACE FUNCTION redrive.kept_members(ids text[]) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN ARRAY(
    SELECT one.id FROM unnest(ids) WITH ORDINALITY AS one (id, place)
    WHERE one.id LIKE 'batch:%'
      AND EXISTS (SELECT FROM redrive.record WHERE type = 'batch' AND record.id = split_part(one.id, ':', 2))
    ORDER BY one.place);
END
$$;

-- Whether tasks of a state may have to stay although their time is over.
CREATE OR REPLACE FUNCTION redrive.is_any_kept(of_state smallint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM redrive.record WHERE type = 'batch')
    OR of_state = redrive.state_dead() AND redrive.is_any_blocking();
END
$$;

-- Those of these tasks of a state that stay although their time is over: members of batches, and dead letters that block
-- their lane.
CREATE OR REPLACE FUNCTION redrive.kept_among(ids text[], of_state smallint) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF of_state <> redrive.state_dead() THEN
    RETURN redrive.kept_members(ids);
  END IF;
  RETURN ARRAY(SELECT id FROM unnest(redrive.kept_members(ids)) AS id
    UNION SELECT id FROM unnest(redrive.blocking_letters(ids)) AS id);
END
$$;

-- Deletes tasks that ended in a state, and are in no list any more, with their ledger and their steps.
CREATE OR REPLACE FUNCTION redrive.forget_tasks(ids text[], of_state int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  WITH deleted_task AS (
    DELETE FROM redrive.task WHERE id = ANY (ids) AND state = of_state RETURNING id, lane, failure_group, has_steps
  ), deleted_entry AS (
    DELETE FROM redrive.ledger USING deleted_task WHERE ledger.task = ANY (ARRAY[deleted_task.id])
  ), deleted_step AS (
    DELETE FROM redrive.step USING deleted_task
    WHERE deleted_task.has_steps AND step.task = ANY (ARRAY[deleted_task.id])
  ), left_group AS (
    INSERT INTO redrive.group_tally (failure_group, hour, dead)
    SELECT failure_group, 0, -count(*) FROM deleted_task
    WHERE of_state = redrive.state_dead() AND failure_group IS NOT NULL GROUP BY failure_group
  )
  INSERT INTO redrive.tally (lane, succeeded, skipped, dead, cancelled)
  SELECT lane,
    -count(*) FILTER (WHERE of_state = redrive.state_succeeded()),
    -count(*) FILTER (WHERE of_state = redrive.state_skipped()),
    -count(*) FILTER (WHERE of_state = redrive.state_dead()),
    -count(*) FILTER (WHERE of_state = redrive.state_cancelled())
  FROM deleted_task GROUP BY lane;
END
$$;

-- Deletes up to `up_to` tasks that ended in a state before a time, with their ledger. Members of batches stay, and dead letters
-- that block their lane; lists of which nothing else is left are passed over. Returns how many were listed.
CREATE OR REPLACE FUNCTION redrive.prune_ended(of_state smallint, before bigint, up_to int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  is_any_kept constant boolean := redrive.is_any_kept(of_state);
  gone int := 0;
  place tid;
  ids text[];
  old text[];
  kept text[];
BEGIN
  FOR place, ids IN
    SELECT ended.ctid, ended.tasks FROM redrive.ended
    WHERE ended.state = of_state AND ended.at <= before AND ended.lane IS NULL
      AND (NOT is_any_kept OR cardinality(redrive.kept_among(ended.tasks, of_state)) < cardinality(ended.tasks))
    ORDER BY ended.at LIMIT up_to FOR UPDATE SKIP LOCKED
  LOOP
    kept := CASE WHEN is_any_kept THEN redrive.kept_among(ids, of_state) ELSE '{}' END;
    IF kept <> '{}' THEN
      ids := ARRAY(SELECT one.id FROM unnest(ids) WITH ORDINALITY AS one (id, place)
        WHERE one.id <> ALL (kept) ORDER BY one.place);
    END IF;
    old := ids[1 : up_to - gone];
    IF cardinality(ids) > cardinality(old) OR kept <> '{}' THEN
      UPDATE redrive.ended SET tasks = kept || ids[cardinality(old) + 1 :] WHERE ctid = place;
    ELSE
      DELETE FROM redrive.ended WHERE ctid = place;
    END IF;
    PERFORM redrive.forget_tasks(old, of_state);
    gone := gone + cardinality(old);
    EXIT WHEN gone >= up_to;
  END LOOP;
  RETURN gone;
END
$$;

-- Deletes the oldest tasks that ended in a state, up to `up_to`, while there are more than `most`. `total` counts all of them but
-- items. Returns how many were listed.
CREATE OR REPLACE FUNCTION redrive.prune_oldest(of_state int, total bigint, most bigint, up_to int, now_ms bigint) RETURNS int
LANGUAGE plpgsql AS $$
BEGIN
  IF up_to > 0 AND total > most THEN
    RETURN redrive.prune_ended(of_state::smallint, now_ms, least(up_to, total - most)::int);
  END IF;
  RETURN 0;
END
$$;

-- Deletes tasks of which there are more than are to be kept. The caller has locked out everybody else who prunes, since two
-- that count the same tasks would delete twice as many.
CREATE OR REPLACE FUNCTION redrive.prune_surplus(
  succeeded_most bigint, skipped_most bigint, cancelled_most bigint, dead_most bigint, up_to int, now_ms bigint
) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  total record;
  gone int := 0;
BEGIN
  SELECT coalesce(sum(succeeded), 0)::bigint AS succeeded, coalesce(sum(skipped), 0)::bigint AS skipped,
    coalesce(sum(cancelled), 0)::bigint AS cancelled, coalesce(sum(dead), 0)::bigint AS dead
  INTO total FROM redrive.tally WHERE lane < redrive.first_run_lane();
  gone := gone + redrive.prune_oldest(redrive.state_succeeded(), total.succeeded, succeeded_most, up_to - gone, now_ms);
  gone := gone + redrive.prune_oldest(redrive.state_skipped(), total.skipped, skipped_most, up_to - gone, now_ms);
  gone := gone + redrive.prune_oldest(redrive.state_cancelled(), total.cancelled, cancelled_most, up_to - gone, now_ms);
  gone := gone + redrive.prune_oldest(redrive.state_dead(), total.dead, dead_most, up_to - gone, now_ms);
  RETURN gone;
END
$$;

-- Lets others prune at the same time, or nobody, until the transaction ends.
CREATE OR REPLACE FUNCTION redrive.lock_prune(is_alone boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF is_alone THEN
    PERFORM pg_advisory_xact_lock('redrive.ended'::regclass::oid::int, 0);
  ELSE
    PERFORM pg_advisory_xact_lock_shared('redrive.ended'::regclass::oid::int, 0);
  END IF;
END
$$;

-- Whether a lane with a key is idle: src/store/rules/idle-lanes.ts tells what that means.
CREATE OR REPLACE FUNCTION redrive.is_idle_lane(this redrive.lane, now_ms bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN NOT this.paused AND this.held_until <= now_ms
    AND (this.ramp IS NULL OR this.held_until <= now_ms - 86400000)
    AND coalesce(redrive.tokens(this, now_ms) >= greatest(1, this.per_second), true)
    AND (
      SELECT bool_and(0 = ALL (ARRAY[one.waiting, one.running, one.succeeded, one.skipped, one.dead, one.cancelled]))
      FROM (
        SELECT coalesce(sum(waiting), 0) AS waiting, coalesce(sum(running), 0) AS running,
          coalesce(sum(succeeded), 0) AS succeeded, coalesce(sum(skipped), 0) AS skipped, coalesce(sum(dead), 0) AS dead,
          coalesce(sum(cancelled), 0) AS cancelled
        FROM redrive.tally WHERE tally.lane = this.id
      ) AS one)
    AND (
      SELECT (this.concurrency, this.per_second, this.ordered, this.blocking) IS NOT DISTINCT FROM
        (rule.concurrency, rule.per_second, coalesce(rule.ordered, false), coalesce(rule.blocking, false))
      FROM (SELECT) AS always LEFT JOIN LATERAL (
        SELECT its.concurrency, its.per_second, its.ordered, its.blocking FROM redrive.limit_rule AS its
        WHERE its.kind = this.kind AND coalesce(its.category = this.category, true) AND coalesce(its.key = this.key, true)
        ORDER BY its.id DESC LIMIT 1
      ) AS rule ON true);
END
$$;

-- Retires lanes that are idle, some at a time, and deletes them a day later. A transaction may have read a lane before
-- it was retired, and add a task to it long after. So once others see that it is retired, the ids of transactions are noted
-- (`retired_by`), and it stays until all that were under way then have ended. Whoever adds a task to a retired lane takes it
-- back first (`make_lanes`), under the lock that the deletion needs.
CREATE OR REPLACE FUNCTION redrive.prune_lanes(now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  most constant int := 200;
  first_lane bigint := (SELECT id FROM redrive.lane WHERE id > 0 ORDER BY id LIMIT 1);
  last_lane bigint := (SELECT id FROM redrive.lane WHERE NOT redrive.has_items(id) ORDER BY id DESC LIMIT 1);
  lanes bigint[];
BEGIN
  lanes := ARRAY(
    SELECT its.id FROM redrive.lane AS its
    WHERE its.retired IS NOT NULL AND its.retired <= now_ms - 86400000
      AND coalesce(its.retired_by <= txid_snapshot_xmin(txid_current_snapshot()), true)
    ORDER BY its.retired LIMIT most FOR UPDATE SKIP LOCKED);
  UPDATE redrive.lane SET retired_by = txid_snapshot_xmax(txid_current_snapshot())
  WHERE id = ANY (lanes) AND retired_by IS NULL;
  -- They are looked at again under their locks: somebody may have added to one since it was retired.
  lanes := ARRAY(
    SELECT its.id FROM unnest(lanes) AS named (id) JOIN redrive.lane AS its ON its.id = ANY (ARRAY[named.id])
    WHERE its.retired_by <= txid_snapshot_xmin(txid_current_snapshot()) AND redrive.is_idle_lane(its, now_ms));
  DELETE FROM redrive.tally WHERE lane = ANY (lanes);
  DELETE FROM redrive.lane WHERE id = ANY (lanes);

  first_lane := CASE WHEN last_lane - first_lane < most THEN 1
    ELSE greatest(1, first_lane - most + floor(random() * (last_lane - first_lane + most))::bigint) END;
  UPDATE redrive.lane SET retired = now_ms WHERE id = ANY (ARRAY(
    SELECT its.id FROM (SELECT id FROM redrive.lane WHERE id >= first_lane ORDER BY id LIMIT most) AS named
    JOIN redrive.lane AS its ON its.id = ANY (ARRAY[named.id])
    WHERE NOT redrive.has_items(its.id) AND its.retired IS NULL AND redrive.is_idle_lane(its, now_ms)
    FOR UPDATE OF its SKIP LOCKED
  ));
END
$$;

-- Deletes up to `up_to` tasks, keys and audit records in all that have been over for long enough, and tasks of which there are
-- more than are to be kept. Returns how many. `ages` and `most` are those of tasks that succeeded, were skipped, were cancelled and
-- are dead.
CREATE OR REPLACE FUNCTION redrive.prune(
  ages bigint[], most bigint[], keys_ms bigint, audit_ms bigint, up_to int, at bigint
) RETURNS int LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  gone int := 0;
  count int;
BEGIN
  PERFORM redrive.lock_prune(most IS NOT NULL);
  gone := gone + redrive.prune_ended(redrive.state_succeeded()::smallint, now_ms - ages[1], up_to - gone);
  gone := gone + redrive.prune_ended(redrive.state_skipped()::smallint, now_ms - ages[2], up_to - gone);
  gone := gone + redrive.prune_ended(redrive.state_cancelled()::smallint, now_ms - ages[3], up_to - gone);
  gone := gone + redrive.prune_ended(redrive.state_dead()::smallint, now_ms - ages[4], up_to - gone);
  IF most IS NOT NULL THEN
    gone := gone + redrive.prune_surplus(most[1], most[2], most[3], most[4], up_to - gone, now_ms);
  END IF;
  PERFORM redrive.prune_groups(now_ms - ages[4]);
  PERFORM redrive.prune_lanes(now_ms);
  PERFORM redrive.prune_quotas(now_ms);
  DELETE FROM redrive.cost_tally WHERE hour < redrive.hour_of(now_ms - audit_ms);
  DELETE FROM redrive.unique_key WHERE ctid = ANY (ARRAY(
    SELECT own.ctid FROM redrive.unique_key AS own WHERE own.until <= now_ms AND own.next IS NULL
    LIMIT 10000 FOR UPDATE SKIP LOCKED));

  DELETE FROM redrive.idempotency WHERE key IN (
    SELECT key FROM redrive.idempotency WHERE done_at <= now_ms - keys_ms ORDER BY done_at LIMIT up_to - gone
    FOR UPDATE SKIP LOCKED
  );
  GET DIAGNOSTICS count = ROW_COUNT;
  gone := gone + count;

  -- Records are appended in the order of time, so only the first ones are read.
  DELETE FROM redrive.audit WHERE id IN (
    SELECT oldest.id FROM (SELECT id, audit.at FROM redrive.audit ORDER BY id LIMIT up_to - gone) AS oldest
    WHERE oldest.at <= now_ms - audit_ms
  );
  GET DIAGNOSTICS count = ROW_COUNT;
  gone := gone + count;
  RETURN gone;
END
$$;
