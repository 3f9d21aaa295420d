-- The states of a task. Each name is inlined as its number, so that partial indexes such as `WHERE state = 1` are used.
-- Tasks that wait come first, tasks that have ended last.

-- Waits for its time, and then for its retry budget.
CREATE OR REPLACE FUNCTION redrive.state_budgeted()  RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT -1';
CREATE OR REPLACE FUNCTION redrive.state_scheduled() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 0';
CREATE OR REPLACE FUNCTION redrive.state_ready()     RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 1';
-- Ready, and must run alone in its worker.
CREATE OR REPLACE FUNCTION redrive.state_alone()     RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 2';
CREATE OR REPLACE FUNCTION redrive.state_running()   RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 3';
CREATE OR REPLACE FUNCTION redrive.state_succeeded() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 4';
CREATE OR REPLACE FUNCTION redrive.state_skipped()   RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 5';
CREATE OR REPLACE FUNCTION redrive.state_dead()      RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 6';
CREATE OR REPLACE FUNCTION redrive.state_cancelled() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 7';

-- The state of a task's own row after an outcome. A task that waits again has the state `running` there.
CREATE OR REPLACE FUNCTION redrive.state_after(outcome text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE outcome
    WHEN 'succeeded' THEN redrive.state_succeeded()
    WHEN 'skipped' THEN redrive.state_skipped()
    WHEN 'dead' THEN redrive.state_dead()
    WHEN 'cancelled' THEN redrive.state_cancelled()
    ELSE redrive.state_running()
  END
$$;

-- Whether a task with this outcome waits for another attempt.
CREATE OR REPLACE FUNCTION redrive.waits_again(outcome text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT outcome IN ('retry', 'deferred', 'later', 'released', 'lost', 'advanced')
$$;

-- The state that a task waits in. In an ordered lane it is ready before its time, and the lane is held meanwhile.
CREATE OR REPLACE FUNCTION redrive.waiting_state(is_due boolean, is_alone boolean) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN NOT is_due THEN redrive.state_scheduled() WHEN is_alone THEN redrive.state_alone()
    ELSE redrive.state_ready() END
$$;

-- Whether a task with this number of losses must run alone in its worker, so that it kills no neighbours.
CREATE OR REPLACE FUNCTION redrive.runs_alone(losses int) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT losses >= 2
$$;
