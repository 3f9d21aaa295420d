-- Traces: `traceparent` is the span that enqueued a task, `trace` the id of an attempt's own trace.
ALTER TABLE redrive.task ADD COLUMN traceparent text;
ALTER TABLE redrive.ledger ADD COLUMN trace text;
ALTER TYPE redrive.ended_attempt ADD ATTRIBUTE trace text;

-- What workers report of themselves: the release of the application, the kinds and categories that they run (NULL: all of
-- them, or not reported), and their machine. `since` is the time of the first heartbeat.
ALTER TABLE redrive.worker
  ADD COLUMN release    text,
  ADD COLUMN kinds      text[],
  ADD COLUMN categories text[],
  ADD COLUMN host       text,
  ADD COLUMN since      bigint;

-- The release that made an attempt. In `task` it belongs to the attempt that the task succeeded with, as `ran_*` do.
ALTER TABLE redrive.task   ADD COLUMN release text;
ALTER TABLE redrive.ledger ADD COLUMN release text;

ALTER TYPE redrive.ended_attempt ADD ATTRIBUTE release text;

CREATE OR REPLACE VIEW redrive.standing AS
  SELECT task.id, task.lane, coalesce(waiting.state, task.state) AS state, task.priority, task.submitted_at,
    task.started_at, greatest(its_claim.at, task.changed_at) AS changed_at, waiting.next_at, task.entries, task.attempts,
    task.deferrals, task.losses, task.undecided, task.previous_delay, task.error_class, task.error_code,
    task.error_message, task.reason, task.worker, task.ran_from, task.ran_to, task.ran_attempt, task.result, task.payload,
    task.value, task.cost, task.version, task.call, task.traceparent, task.release
  FROM redrive.task
  LEFT JOIN redrive.waiting ON waiting.task = task.id
  LEFT JOIN LATERAL (
    SELECT max(claim.at) AS at FROM redrive.claim
    WHERE task.state = 3 AND waiting.task IS NULL AND task.id = ANY (claim.tasks)  -- running
  ) AS its_claim ON true;
