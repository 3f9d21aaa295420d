-- Completes a task within a transaction of its handler's own. The round stays, so that the worker, which settles the
-- task once more when the handler has returned, is told that it is settled. Locks nothing but the task, so that nobody
-- else waits until the transaction is over. Returns false if the task is no longer in that round, or has advanced.
CREATE OR REPLACE FUNCTION redrive.complete(
  of_id text, of_claim bigint, of_round int, of_advances int, of_result text, at bigint
) RETURNS boolean LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  batch redrive.settlement_columns;
  done record;
BEGIN
  SELECT ARRAY[task.id], ARRAY[of_round], ARRAY[of_advances], ARRAY[of_result], ARRAY[task.attempts + 1],
    ARRAY[began.at], ARRAY[now_ms - began.at], ARRAY[claim.worker], ARRAY[redrive.release_of(claim.worker)]
  INTO batch.ids, batch.rounds, batch.advances, batch.results, batch.attempts,
    batch.began, batch.took, batch.workers, batch.releases
  FROM redrive.task CROSS JOIN redrive.claim CROSS JOIN LATERAL (SELECT greatest(claim.at, task.changed_at) AS at) AS began
  WHERE task.id = of_id AND claim.id = of_claim;
  done := redrive.succeed(batch, now_ms);
  IF done.settled IS NULL THEN
    RETURN false;
  END IF;
  UPDATE redrive.task SET round = of_round WHERE id = of_id;
  RETURN true;
END
$$;
