-- Items of pipelines. An item advances from lane to lane, in its own row: `value` is the input of its present stage, and
-- NULL in the first. `cost` is a JSON object, how much it takes from each bucket of a shared limit. `version` and `call`
-- belong to the attempt that it succeeded with, as `ran_*` do.
--
-- An item that is kept by its worker stays in its round, so that its claim still names it. `advances` counts how often it
-- has advanced, so id, round and advances together tell whether a token is still valid.
ALTER TABLE redrive.task
  ADD COLUMN value    text,
  ADD COLUMN cost     text,
  ADD COLUMN version  text,
  ADD COLUMN call     text,
  ADD COLUMN advances int NOT NULL DEFAULT 0;

-- `category` is NULL in rows from before, when no task ever changed its category.
ALTER TABLE redrive.ledger
  ADD COLUMN category text,
  ADD COLUMN version  text,
  ADD COLUMN call     text;

ALTER TYPE redrive.ended_attempt
  ADD ATTRIBUTE category text,
  ADD ATTRIBUTE version  text,
  ADD ATTRIBUTE call     text;

-- A running task has been in its state since it was claimed, or since it advanced to its lane.
CREATE OR REPLACE VIEW redrive.standing AS
  SELECT task.id, task.lane, coalesce(waiting.state, task.state) AS state, task.priority, task.submitted_at,
    task.started_at, greatest(its_claim.at, task.changed_at) AS changed_at, waiting.next_at, task.entries, task.attempts,
    task.deferrals, task.losses, task.undecided, task.previous_delay, task.error_class, task.error_code,
    task.error_message, task.reason, task.worker, task.ran_from, task.ran_to, task.ran_attempt, task.result, task.payload,
    task.value, task.cost, task.version, task.call
  FROM redrive.task
  LEFT JOIN redrive.waiting ON waiting.task = task.id
  LEFT JOIN LATERAL (
    SELECT max(claim.at) AS at FROM redrive.claim
    WHERE task.state = 3 AND waiting.task IS NULL AND task.id = ANY (claim.tasks)  -- running
  ) AS its_claim ON true;

-- Limits that the lanes of a kind, or of a kind and category, share. `limits` and `state` are JSON: see functions/shared.sql.
CREATE TABLE redrive.shared_limit (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind     text COLLATE "C" NOT NULL,
  category text COLLATE "C",
  limits   text NOT NULL,
  state    text NOT NULL
) WITH (fillfactor = 50);
-- The last limits that code declared, by JSON of kind and category. An operator's limits hold until a declaration differs
-- from the last one.
CREATE TABLE redrive.declared_limit (
  lanes  text COLLATE "C" PRIMARY KEY,
  limits text NOT NULL
);
ALTER TABLE redrive.lane ADD COLUMN shared bigint;
CREATE INDEX lane_shared ON redrive.lane (shared, id) WHERE shared IS NOT NULL;

-- Answers in these lanes, by second, to be added up: no settlement waits for another's count.
CREATE TABLE redrive.shared_answer (
  shared bigint NOT NULL,
  second bigint NOT NULL,
  count  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX shared_answer_shared ON redrive.shared_answer (shared);

-- Whether a lane may keep an item that advances to it: how many it may take, and the first task that is ready there.
CREATE TYPE redrive.opening AS (allowance int, priority float8, submitted_at bigint, task text COLLATE "C");
