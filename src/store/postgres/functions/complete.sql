-- Completes a task within a transaction of its handler's own. The round stays, so that the worker, which settles the
-- task once more when the handler has returned, is told that it is settled. Locks nothing but the task, so that nobody
-- else waits until the transaction is over. Returns false if the task is no longer in that round, or has advanced.
CREATE OR REPLACE FUNCTION redrive.complete(
  of_id text, of_claim bigint, of_round int, of_advances int, of_result text, at bigint
) RETURNS boolean LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  settled int[];
BEGIN
  SELECT done.settled INTO settled
  FROM redrive.task CROSS JOIN redrive.claim CROSS JOIN LATERAL redrive.succeed(
    ARRAY[of_id], ARRAY[of_round], ARRAY[of_advances], ARRAY[of_result], ARRAY[task.attempts + 1],
    ARRAY[greatest(claim.at, task.changed_at)], ARRAY[now_ms - greatest(claim.at, task.changed_at)],
    ARRAY[claim.worker], NULL, NULL, ARRAY[redrive.release_of(claim.worker)], NULL, now_ms) AS done
  WHERE task.id = of_id AND claim.id = of_claim;
  UPDATE redrive.task SET round = of_round WHERE id = of_id AND settled IS NOT NULL;
  RETURN settled IS NOT NULL;
END
$$;
