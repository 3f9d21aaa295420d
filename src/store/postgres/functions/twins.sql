-- Redrives of tasks whose unique keys others may have by now: src/store/verbs/unique.ts.

-- The live task that has a key of a kind; NULL if there is none.
CREATE OR REPLACE FUNCTION redrive.twin_of(of_kind text, of_key text, now_ms bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  held redrive.unique_key;
BEGIN
  SELECT * INTO held FROM redrive.unique_key AS known WHERE known.kind = of_kind AND known.key = of_key;
  RETURN CASE WHEN held.task IS NOT NULL AND (redrive.holder_of(held, now_ms)).has_key THEN held.task END;
END
$$;

-- Whether another task has the key by now that a task had until it ended. `of_kind` is that of the task.
CREATE OR REPLACE FUNCTION redrive.has_twin(this redrive.task, of_kind text, now_ms bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN this.unique_while = 'unfinished' AND redrive.twin_of(of_kind, this.unique_key, now_ms) IS NOT NULL;
END
$$;

-- Those dead tasks whose twin lives, as a JSON array of [id, twin].
CREATE OR REPLACE FUNCTION redrive.twins_of(ids text[], at bigint) RETURNS json LANGUAGE plpgsql STABLE /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
BEGIN
  RETURN (
    SELECT coalesce(json_agg(json_build_array(lost.id, lost.twin)), '[]') FROM (
      SELECT this.id, redrive.twin_of(
        (SELECT lane.kind FROM redrive.lane WHERE lane.id = this.lane), this.unique_key, now_ms) AS twin
      FROM redrive.task AS this
      WHERE this.id = ANY (ids) AND this.state = redrive.state_dead() AND this.unique_while = 'unfinished'
    ) AS lost WHERE lost.twin IS NOT NULL
  );
END
$$;

-- Gives dead tasks their keys back, before they are redriven. `of_operation` and `died_until` as with `redrive`. Returns
-- {id, outcome} of those that had one until they ended, as a JSON array: `taken`, `queued` or `refused`.
CREATE OR REPLACE FUNCTION redrive.retake_keys(
  ids text[], conflict text, of_operation text, died_until bigint, at bigint
) RETURNS json LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  answer json[] := '{}';
  mine text[] := '{}';
  lost record;
  met record;
BEGIN
  FOR lost IN
    SELECT this.id, this.unique_key, (SELECT lane.kind FROM redrive.lane WHERE lane.id = this.lane) AS kind
    FROM redrive.task AS this
    WHERE this.id = ANY (ids) AND this.state = redrive.state_dead() AND this.unique_while = 'unfinished'
      AND (died_until IS NULL OR this.changed_at <= died_until)
      AND (of_operation IS NULL OR this.operation IS DISTINCT FROM of_operation)
    ORDER BY array_position(ids, this.id)
  LOOP
    -- Of those with the same key, only the first gets it.
    IF EXISTS (SELECT FROM redrive.unique_key AS own WHERE own.kind = lost.kind AND own.key = lost.unique_key
      AND (own.task = ANY (mine) OR own.next = ANY (mine)))
    THEN
      answer := answer || json_build_object('id', lost.id, 'outcome', 'refused');
      CONTINUE;
    END IF;
    met := redrive.meet_twin(
      ROW(lost.kind, lost.unique_key, 'unfinished', NULL, conflict, NULL, 'redrive')::redrive.unique_asked,
      lost.id, NULL, now_ms, now_ms);
    mine := mine || CASE WHEN met.outcome <> 'kept' THEN lost.id END;
    answer := answer || json_build_object('id', lost.id, 'outcome', CASE
      WHEN met.outcome = 'kept' THEN 'refused' WHEN met.is_queued THEN 'queued' ELSE 'taken' END);
  END LOOP;
  RETURN array_to_json(answer);
END
$$;

-- Makes tasks that this transaction has redriven wait until their twins have ended.
CREATE OR REPLACE FUNCTION redrive.queue_tasks(ids text[]) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  -- In the condition, it would be called for every row.
  places constant tid[] := redrive.lock_waiting(ids);
BEGIN
  UPDATE redrive.waiting SET state = redrive.state_scheduled(), next_at = redrive.queued_until()
  WHERE ctid = ANY (places);
END
$$;

-- Gives the keys of dead tasks back that were not redriven after all.
CREATE OR REPLACE FUNCTION redrive.give_back_keys(ids text[], at bigint) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  PERFORM redrive.release_keys(ids, redrive.now_ms(at));
END
$$;

-- The live task that has a key; NULL if there is none.
CREATE OR REPLACE FUNCTION redrive.holder_of_key(of_kind text, of_key text, at bigint) RETURNS text LANGUAGE plpgsql STABLE
/* verb */ AS $$
BEGIN
  RETURN redrive.twin_of(of_kind, of_key, redrive.now_ms(at));
END
$$;

-- The ids of the tasks that were enqueued with a key, as a JSON array.
CREATE OR REPLACE FUNCTION redrive.tasks_with_key(of_key text) RETURNS json LANGUAGE plpgsql STABLE /* patient verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(id), '[]') FROM redrive.task WHERE unique_key = of_key AND unique_key IS NOT NULL
  );
END
$$;
