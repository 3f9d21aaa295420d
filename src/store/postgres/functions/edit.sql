-- Replaces the payload of a task that waits or is dead, on record; not of an item of a run. Returns whether there was one.
CREATE OR REPLACE FUNCTION redrive.edit(of_id text, new_payload text, who text, why text, at bigint) RETURNS boolean
LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  of_state smallint;
  places tid[];
BEGIN
  SELECT state INTO of_state FROM redrive.task WHERE id = of_id AND NOT redrive.has_items(lane) FOR UPDATE;
  IF of_state = redrive.state_running() THEN
    -- Keeps claims away until this is over. A task that one has taken runs with the payload that it had.
    places := redrive.lock_waiting(ARRAY[of_id]);
    IF places = '{}' THEN
      RETURN false;
    END IF;
  ELSIF of_state IS DISTINCT FROM redrive.state_dead() THEN
    RETURN false;
  END IF;
  INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason, category, before)
  SELECT id, entries + 1, 0, now_ms, now_ms, who, 'edited', why,
    (SELECT its.category FROM redrive.lane AS its WHERE its.id = task.lane), json_build_object('payload', payload)::text
  FROM redrive.task WHERE id = of_id;
  UPDATE redrive.task SET payload = new_payload, entries = entries + 1 WHERE id = of_id;
  RETURN true;
END
$$;

-- Locks the dead tasks among these, but no items of runs. Returns {ids, payloads}, as JSON.
CREATE OR REPLACE FUNCTION redrive.lock_payloads(of_ids text[]) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  RETURN (
    SELECT json_build_object('ids', coalesce(array_agg(id), '{}'), 'payloads', coalesce(array_agg(payload), '{}'))::text
    FROM (
      SELECT id, payload FROM redrive.task
      WHERE id = ANY (of_ids) AND state = redrive.state_dead() AND NOT redrive.has_items(lane)
      ORDER BY id FOR UPDATE
    ) AS locked
  );
END
$$;

-- Replaces the payloads of tasks that this transaction has redriven. The rows of the redrive get the originals.
CREATE OR REPLACE FUNCTION redrive.replace_payloads(ids text[], payloads text[]) RETURNS void LANGUAGE plpgsql
/* verb */ AS $$
BEGIN
  UPDATE redrive.ledger AS last SET before = concat(left(last.before, -1), ',"payload":', to_json(task.payload), '}')
  FROM unnest(ids) AS one (id) JOIN redrive.task ON task.id = ANY (ARRAY[one.id])
  WHERE last.task = task.id AND last.sequence = task.entries;
  UPDATE redrive.task SET payload = given.payload FROM unnest(ids, payloads) AS given (id, payload)
  WHERE task.id = ANY (ARRAY[given.id]);
END
$$;
