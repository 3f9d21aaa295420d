-- Records steps of tasks, each where its token still holds; one that is done stays as it is. `steps` is a JSON array of {n, id,
-- round, advances, name, done, result, state}. Returns the numbers of those whose token holds.
CREATE OR REPLACE FUNCTION redrive.record_steps(steps json, at bigint) RETURNS int[] LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  held int[];
BEGIN
  -- A task that waits has no claim of its present round, so a round that was claimed tells that the task runs.
  held := ARRAY(
    SELECT given.n FROM (
      SELECT * FROM json_to_recordset(steps) AS one (n int, id text, round int, advances int) ORDER BY id
    ) AS given
    CROSS JOIN LATERAL (
      SELECT FROM redrive.task
      WHERE task.id = given.id AND task.state = redrive.state_running() AND task.round = given.round
        AND task.advances = given.advances
      OFFSET 0 FOR UPDATE
    ) AS locked_task);
  IF held = '{}' THEN
    RETURN held;
  END IF;
  INSERT INTO redrive.step AS own (task, name, done, result, state)
  SELECT id, name, done, result, state
  FROM json_to_recordset(steps) AS one (n int, id text, name text, done boolean, result text, state text)
  WHERE n = ANY (held) ORDER BY n
  ON CONFLICT (task, name) DO UPDATE SET done = excluded.done, result = excluded.result, state = excluded.state
  WHERE NOT own.done;
  UPDATE redrive.task SET has_steps = true
  WHERE NOT has_steps AND id = ANY (ARRAY(
    SELECT id FROM json_to_recordset(steps) AS one (n int, id text) WHERE n = ANY (held)));
  RETURN held;
END
$$;

-- The steps of tasks, those of each in their order, as a JSON array.
CREATE OR REPLACE FUNCTION redrive.steps_of(ids text[]) RETURNS text LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(json_build_object('task', task, 'name', name, 'done', done, 'result', result, 'state', state)
      ORDER BY sequence), '[]')::text
    FROM redrive.step WHERE task = ANY (ids)
  );
END
$$;

-- Forgets the result of a step of these tasks; with `and_later`, also those that were first recorded after it. Their attempts
-- stay on record. Returns how many.
CREATE OR REPLACE FUNCTION redrive.forget_steps(ids text[], of_name text, and_later boolean) RETURNS int
LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  gone int;
BEGIN
  UPDATE redrive.step SET done = false, result = NULL FROM (
    SELECT named.task, named.sequence FROM redrive.step AS named WHERE named.task = ANY (ids) AND named.name = of_name
  ) AS first
  WHERE step.task = ANY (ARRAY[first.task]) AND step.done
    AND (step.sequence = first.sequence OR and_later AND step.sequence > first.sequence);
  GET DIAGNOSTICS gone = ROW_COUNT;
  RETURN gone;
END
$$;
