-- Gives up waiting tasks that have not changed since these times, unless their lane is paused: their time to live is over, and
-- nobody runs them. They end as if a worker had claimed them and settled them without an attempt. Returns their ids, as a JSON
-- array.
CREATE OR REPLACE FUNCTION redrive.expire(ids text[], times bigint[], at bigint) RETURNS text LANGUAGE plpgsql
/* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  locked text[] := redrive.lock_tasks(ids);
  places tid[];
  batch redrive.ended_attempt[];
BEGIN
  locked := ARRAY(
    SELECT task.id FROM unnest(ids, times) AS given (id, changed_at)
    CROSS JOIN LATERAL (
      SELECT its.id, its.lane FROM redrive.task AS its
      WHERE its.id = given.id AND its.id = ANY (locked) AND its.changed_at = given.changed_at OFFSET 0
    ) AS task
    WHERE NOT (SELECT lane.paused FROM redrive.lane WHERE lane.id = task.lane)
  );
  places := redrive.lock_waiting(locked);
  WITH dequeued AS (
    DELETE FROM redrive.waiting WHERE ctid = ANY (places) RETURNING task, lane
  ), tallied AS (
    INSERT INTO redrive.tally (lane, waiting, running) SELECT lane, -count(*), count(*) FROM dequeued GROUP BY lane
  )
  SELECT array_agg(task) INTO locked FROM dequeued;
  IF locked IS NULL THEN
    RETURN '[]';
  END IF;
  SELECT redrive.lock_ended(json_build_object(
    'shared', json_build_object('type', 'dead', 'reason', 'ttl_expired'),
    'outcomes', json_agg(json_build_object('n', n, 'id', task.id, 'round', task.round))), now_ms)
  INTO batch
  FROM unnest(locked) WITH ORDINALITY AS one (id, n) JOIN redrive.task ON task.id = ANY (ARRAY[one.id]);
  PERFORM redrive.write_ended(batch, NULL, NULL, now_ms);
  PERFORM redrive.note_members(batch);
  PERFORM redrive.count_failures(batch, now_ms);
  PERFORM redrive.record_decisions(batch);
  RETURN to_json(locked)::text;
END
$$;
