-- Hands a worker's tasks back, uncounted, and forgets the worker. Returns the number of tasks.
CREATE OR REPLACE FUNCTION redrive.leave(by_worker text, at bigint) RETURNS int LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  count int := redrive.take_from(by_worker, 'released', '{}', 9223372036854775807, redrive.now_ms(at));
BEGIN
  -- Tasks that somebody has locked are left. Their lease runs out at once, and somebody rescues them.
  UPDATE redrive.worker SET until = 0 WHERE id = by_worker;
  DELETE FROM redrive.worker
  WHERE id = by_worker AND NOT EXISTS (SELECT FROM redrive.claim WHERE worker = by_worker);
  RETURN count;
END
$$;
