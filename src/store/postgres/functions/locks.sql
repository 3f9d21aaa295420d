-- Locks that others hold. A handler's own transaction locks its task (`complete`, `once`) and the lanes that it creates, and
-- nobody knows for how long. So verbs give up after their `lock_timeout`, and find out here what they waited for.

-- The transaction that holds a lock, in words: the one with this id or, if none is given, the oldest that has locked
-- anything in this store. NULL if it is over by now.
CREATE OR REPLACE FUNCTION redrive.lock_holder(of_transaction xid) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
  RETURN (
    SELECT concat('process ', its.pid, ' of the server (', concat_ws(', ',
      quote_literal(nullif(its.application_name, '')), its.usename, its.state,
      'since ' || to_char(its.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
      'statement ' || quote_literal(left(regexp_replace(its.query, '\s+', ' ', 'g'), 200))), ')')
    FROM pg_stat_activity AS its
    WHERE its.pid <> pg_backend_pid() AND EXISTS (
      SELECT FROM pg_locks AS held
      WHERE held.pid = its.pid AND held.granted AND CASE WHEN of_transaction IS NOT NULL
        THEN held.transactionid = of_transaction
        ELSE held.mode <> 'AccessShareLock' AND (held.database, held.relation) IN (
          SELECT db.oid, ours.oid FROM pg_database AS db, pg_class AS ours
          WHERE db.datname = current_database() AND ours.relnamespace = (
            SELECT relnamespace FROM pg_class WHERE oid = 'redrive.task'::regclass)) END)
    ORDER BY its.xact_start NULLS LAST LIMIT 1
  );
END
$$;

-- Those of these tasks that other transactions have locked, as a JSON array of {id, holder}. Waits for none of them.
CREATE OR REPLACE FUNCTION redrive.locked_tasks(ids text[]) RETURNS json LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  free constant text[] := ARRAY(SELECT id FROM redrive.task WHERE id = ANY (ids) FOR UPDATE SKIP LOCKED);
BEGIN
  RETURN (
    SELECT coalesce(json_agg(json_build_object('id', id, 'holder', redrive.lock_holder(xmax))), '[]')
    FROM redrive.task WHERE id = ANY (ids) AND id <> ALL (free)
  );
END
$$;

-- Locks tasks in the order of their ids, so that nobody deadlocks, and returns those that exist. One that somebody else has
-- locked for long is left out, so that the others do not wait for it; if there are no others, this fails.
CREATE OR REPLACE FUNCTION redrive.lock_tasks(ids text[]) RETURNS text[] LANGUAGE plpgsql /* path */ AS $$
DECLARE
  locked text[];
BEGIN
  BEGIN
    RETURN ARRAY(SELECT id FROM redrive.task WHERE id = ANY (ids) ORDER BY id FOR UPDATE);
  EXCEPTION WHEN lock_not_available THEN
    locked := ARRAY(SELECT id FROM redrive.task WHERE id = ANY (ids) ORDER BY id FOR UPDATE SKIP LOCKED);
    IF locked = '{}' THEN
      RAISE;
    END IF;
  END;
  RETURN locked;
END
$$;

-- No rule about the lanes of a kind changes while one of them is created, and no lane is created while one changes. A lock
-- per kind, since a transaction of somebody else's that has created a lane may last for long.
CREATE OR REPLACE FUNCTION redrive.lock_lane_rules(of_kind text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('redrive.pause_rule'::regclass::oid::int, hashtext(of_kind));
END
$$;
