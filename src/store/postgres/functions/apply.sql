-- Locks the tasks of these outcomes, as far as they are still in their round, and derives what becomes of each, as
-- `afterSettlement` and `afterLoss` of src/store/rules/after-settlement.ts do. `reports` is what `settle_outcomes` takes.
CREATE OR REPLACE FUNCTION redrive.lock_ended(reports json, now_ms bigint) RETURNS redrive.ended_attempt[]
LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    WITH locked_task AS MATERIALIZED (
      SELECT report.*, task.lane, task.ordered, task.category, task.failure_group AS last_group, task.priority,
        task.submitted_at, task.entries, task.attempts, task.deferrals, task.losses, task.undecided, task.previous_delay,
        task.error_class AS last_class, task.error_code AS last_code, task.error_message AS last_message, task.operation, task.answered,
        task.unique_key IS NOT NULL AS is_keyed,
        -- A task that was to be cancelled ends where it would have waited again.
        CASE WHEN task.cancel_requested AND redrive.waits_again(report.type) THEN 'cancelled' ELSE report.type END AS outcome,
        task.undecided AND report.type IN ('retry', 'dead') AS is_decision,
        report.type IN ('succeeded', 'skipped') AS is_cleared
      -- One by one, in the order of their ids, so that the table is never read as a whole and nobody deadlocks.
      FROM (
        SELECT * FROM json_populate_recordset(
          json_populate_record(NULL::redrive.outcome, reports -> 'shared'), reports -> 'outcomes'
        ) ORDER BY id
      ) AS report CROSS JOIN LATERAL (
        SELECT task.*, lane.ordered, lane.category
        FROM redrive.task CROSS JOIN LATERAL (
          SELECT its.ordered, its.category FROM redrive.lane AS its WHERE its.id = task.lane OFFSET 0
        ) AS lane
        WHERE task.id = report.id AND task.state = redrive.state_running() AND task.round = report.round
          AND task.advances = coalesce(report.advances, task.advances)
          -- Advances are not settled here, unless the item was to be cancelled.
          AND (report.type <> 'advanced' OR task.cancel_requested)
        FOR UPDATE OF task
      ) AS task
    ), judged_attempt AS (
      SELECT *, type = 'lost' AS is_lost, attempt IS NOT NULL AND NOT is_decision AND type <> 'released' AS is_recorded,
        failure_group IS NOT NULL AND NOT is_decision AND NOT is_cleared AND type <> 'released' AS is_failure
      FROM locked_task
    )
    SELECT array_agg(ROW(
      n, id, lane, ordered, priority, submitted_at, outcome, redrive.state_after(outcome),
      CASE WHEN redrive.waits_again(outcome) THEN ceil(now_ms + greatest(0, coalesce(delay, 0))) END,
      entries + is_recorded::int,
      -- An entry may stand for several attempts: an item fails in several calls of a batch stage.
      CASE WHEN is_cleared THEN 0 WHEN is_recorded AND outcome IN ('retry', 'dead') THEN greatest(attempts + 1, attempt)
        ELSE attempts END,
      CASE WHEN is_cleared THEN 0 ELSE deferrals + (is_recorded AND outcome = 'deferred')::int END,
      CASE WHEN is_cleared THEN 0 ELSE losses + is_lost::int END,
      is_lost OR undecided AND type = 'released',
      CASE WHEN is_cleared THEN NULL WHEN outcome = 'retry' AND is_backoff THEN round(delay) ELSE previous_delay END,
      CASE WHEN NOT is_cleared THEN coalesce(error_class, last_class) END,
      CASE WHEN is_cleared THEN NULL WHEN error_class IS NULL THEN last_code ELSE error_code END,
      CASE WHEN is_cleared THEN NULL WHEN error_class IS NULL THEN last_message ELSE error END,
      CASE WHEN outcome = 'succeeded' THEN result END,
      is_lost, is_recorded, is_decision, attempt, began, ended, worker, CASE WHEN redrive.waits_again(outcome) THEN round(delay) END,
      CASE WHEN outcome IN ('dead', 'skipped', 'succeeded') THEN reason END,
      error_class, error_code, retry_after, error, random, policy, category, version, call, stack, trace, release, notes,
      operation, answered, last_group, is_failure,
      CASE WHEN is_failure THEN failure_group WHEN NOT is_cleared THEN last_group END,
      is_keyed
    )::redrive.ended_attempt)
    FROM judged_attempt
  );
END
$$;

-- The lane that a task blocks by its death: its own, if that stops at dead letters.
CREATE OR REPLACE FUNCTION redrive.blocking_lane(of_lane bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT its.id FROM redrive.lane AS its WHERE its.id = of_lane AND its.blocking);
END
$$;

-- Writes everything that every attempt leaves behind: the rows of the tasks, the ledger, where tasks wait again, the lists
-- of tasks that have ended, and the counts. In one statement, so that the batch is read once. Tasks that have ended give
-- their unique keys back.
-- `retry_budgets` are the budgets of retries in `retry_lanes`; NULL: none of them has one.
CREATE OR REPLACE FUNCTION redrive.write_ended(
  batch redrive.ended_attempt[], retry_lanes bigint[], retry_budgets bigint[], now_ms bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  keyed text[];
BEGIN
  WITH one AS MATERIALIZED (
    SELECT run.*, redrive.is_answer(run) AS is_answer, CASE WHEN run.outcome = 'retry' AND NOT run.is_decision
      THEN retry_budgets[array_position(retry_lanes, run.lane)] END AS retry_budget
    FROM unnest(batch) AS run
  ), written AS (
    UPDATE redrive.task
    SET state = one.state, round = task.round + 1, changed_at = now_ms, entries = one.entries, attempts = one.attempts,
      deferrals = one.deferrals, losses = one.losses, undecided = one.is_undecided, previous_delay = one.previous_delay,
      error_class = one.last_class, error_code = one.last_code, error_message = one.last_message,
      failure_group = one.failure_group,
      failure_state = CASE WHEN one.failure_group IS NOT NULL THEN one.state END,
      failure_at = CASE WHEN one.failure_group IS NOT NULL THEN now_ms END, reason = one.reason,
      result = one.result, value = CASE WHEN one.outcome IN ('succeeded', 'skipped') THEN NULL ELSE task.value END,
      cancel_requested = false, answered = one.answered OR one.is_answer,
      blocks = CASE WHEN one.state = redrive.state_dead() AND one.is_ordered THEN redrive.blocking_lane(one.lane) END
    FROM one WHERE task.id = ANY (ARRAY[one.id])
  ), queued AS (
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at, alone, budget)
    SELECT id, lane, CASE WHEN retry_budget IS NOT NULL THEN redrive.state_budgeted()
        ELSE redrive.waiting_state(next_at <= now_ms OR is_ordered, redrive.runs_alone(losses)) END,
      priority, submitted_at, next_at, redrive.runs_alone(losses), retry_budget
    FROM one WHERE next_at IS NOT NULL
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, delay_ms, reason,
      error_class, error_code, retry_after, error, random, policy, category, version, call, stack, trace, release, notes,
      failure_group)
    SELECT id, entries, attempt, began, ended, worker, CASE WHEN is_lost THEN 'lost' ELSE outcome END, delay_ms, reason,
      error_class, error_code, retry_after, error, random, policy, category, version, call, stack, trace, release, notes,
      CASE WHEN is_failure THEN failure_group END
    FROM one WHERE is_recorded
  ), listed AS (
    INSERT INTO redrive.ended (state, at, lane, tasks, task_lanes)
    SELECT state, now_ms, redrive.item_lane(lane), array_agg(id), array_agg(DISTINCT lane) FROM one
    WHERE state > redrive.state_running() GROUP BY state, redrive.item_lane(lane)
  ), tallied AS (
    INSERT INTO redrive.tally (lane, running, waiting, succeeded, skipped, dead, cancelled)
    SELECT lane, -count(*),
      count(*) FILTER (WHERE state = redrive.state_running()),
      count(*) FILTER (WHERE state = redrive.state_succeeded()),
      count(*) FILTER (WHERE state = redrive.state_skipped()),
      count(*) FILTER (WHERE state = redrive.state_dead()),
      count(*) FILTER (WHERE state = redrive.state_cancelled())
    FROM one GROUP BY lane
  )
  SELECT array_agg(id) INTO keyed FROM one WHERE is_keyed AND state > redrive.state_running();
  PERFORM redrive.release_keys(keyed, now_ms);
END
$$;

-- Completes the ledger's rows of lost attempts with the decisions on them. Each is the last of its task, unless somebody has
-- edited it since, or asked to cancel it.
CREATE OR REPLACE FUNCTION redrive.record_decisions(batch redrive.ended_attempt[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE redrive.ledger
  SET delay_ms = one.delay_ms, reason = one.reason, error_class = one.error_class, error_code = one.error_code,
    retry_after = one.retry_after, error = one.error, random = one.random, policy = one.policy
  FROM unnest(batch) AS one
  WHERE one.is_decision AND ledger.task = ANY (ARRAY[one.id]) AND ledger.sequence = (
    SELECT lost.sequence FROM redrive.ledger AS lost WHERE lost.task = one.id AND lost.outcome = 'lost'
    ORDER BY lost.sequence DESC LIMIT 1
  );
END
$$;

-- Holds lanes after a rate limit, and ordered lanes until their first task is due. After a rate limit a lane starts
-- with one task. Where lanes share a limit, that is held instead (see `note_ends`).
CREATE OR REPLACE FUNCTION redrive.hold_lanes(batch redrive.ended_attempt[], now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE redrive.lane
  SET ramp = CASE WHEN hold.is_deferral AND lane.shared IS NULL THEN 1 ELSE ramp END,
    held_until = greatest(held_until, hold.until),
    held_by = CASE WHEN hold.until >= held_until THEN hold.task ELSE held_by END
  FROM (
    SELECT lane, max(next_at) AS until, bool_or(outcome = 'deferred') AS is_deferral,
      (array_agg(id ORDER BY next_at DESC, n DESC))[1] AS task
    FROM unnest(batch) WHERE outcome = 'deferred' OR is_ordered AND next_at > now_ms
    GROUP BY lane
  ) AS hold
  WHERE lane.id = ANY (ARRAY[hold.lane]) AND (lane.shared IS NULL OR lane.ordered);
END
$$;

-- The argument of `ramp_up` for these attempts: those that ran to an end, after the last deferral of their lane. The rule is
-- `lane` of `afterSettlement`.
CREATE OR REPLACE FUNCTION redrive.ends_of(batch redrive.ended_attempt[]) RETURNS json LANGUAGE sql AS $$
  SELECT json_agg(json_build_object('lane', lane, 'began', began)) FROM (
    SELECT *, max(n) FILTER (WHERE outcome = 'deferred') OVER (PARTITION BY lane) AS last_deferral FROM unnest(batch)
  ) AS one
  WHERE is_recorded AND outcome NOT IN ('deferred', 'cancelled', 'lost') AND n > coalesce(last_deferral, -1)
$$;

-- Applies outcomes of any sort but `advanced`, and writes the ledger. `reports` is JSON: {outcomes, shared, groups}.
--
-- - `outcomes` is an array of `redrive.outcome`. `attempt` is absent where none was made, and `advances` where the task
--   cannot have advanced. Besides the outcomes of the contract there is `lost`: the worker died, and nobody has decided yet
--   what follows. Outcomes count in the order of `n`: an attempt after a deferral in its lane ended after it.
-- - `shared` has the fields that all of them have in common, so that they are sent and read once.
-- - `groups` has the facts of each `failure_group`: an array of {id, kind, code, error_name, pattern, frames}.
--
-- Returns the numbers of the outcomes whose tasks were still in their round.
CREATE OR REPLACE FUNCTION redrive.settle_outcomes(reports json, now_ms bigint) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
  batch redrive.ended_attempt[] := redrive.lock_ended(reports, now_ms);
  surplus redrive.failure_group[];
  has_any constant record := redrive.has_any();
  retry_lanes bigint[];
  has record;
BEGIN
  IF batch IS NULL THEN
    RETURN '{}';
  END IF;
  IF redrive.is_any_group_missing(reports -> 'groups') THEN
    surplus := redrive.make_groups(batch, reports -> 'groups', now_ms);
    IF surplus <> '{}' THEN
      batch := redrive.to_other_groups(batch, surplus, now_ms);
    END IF;
  END IF;
  IF has_any.budgets THEN
    retry_lanes := ARRAY(SELECT DISTINCT lane FROM unnest(batch) WHERE outcome = 'retry' AND NOT is_decision);
  END IF;
  PERFORM redrive.write_ended(batch, retry_lanes, redrive.retry_budgets_of(retry_lanes), now_ms);

  SELECT array_agg(n) AS applied, bool_or(operation IS NOT NULL) AS members, bool_or(is_decision) AS decisions,
    bool_or(is_failure) AS failures, bool_or(failure_group IS NOT NULL OR last_group IS NOT NULL) AS group_changes,
    bool_or(outcome = 'deferred' OR is_ordered AND next_at > now_ms) AS holds,
    array_agg(id) FILTER (WHERE outcome = 'succeeded' AND redrive.has_items(lane)) AS outputs
  INTO has FROM unnest(batch);
  IF has.members THEN
    PERFORM redrive.note_members(batch);
  END IF;
  IF has.group_changes THEN
    PERFORM redrive.count_failures(batch, now_ms);
  END IF;
  IF has.failures THEN
    PERFORM redrive.note_regressions(batch, now_ms);
  END IF;
  IF has.decisions THEN
    PERFORM redrive.record_decisions(batch);
  END IF;
  IF has.holds THEN
    PERFORM redrive.hold_lanes(batch, now_ms);
  END IF;
  IF has.outputs IS NOT NULL THEN
    PERFORM redrive.add_outputs(has.outputs);
  END IF;
  IF has_any.ramps OR has.holds THEN
    PERFORM redrive.ramp_up(redrive.ends_of(batch));
  END IF;
  IF has_any.shared_limits THEN
    PERFORM redrive.note_ends(batch, now_ms);
  END IF;
  IF has_any.budgets THEN
    PERFORM redrive.note_outcomes(batch, has_any.open_gates, now_ms);
  END IF;
  RETURN has.applied;
END
$$;
