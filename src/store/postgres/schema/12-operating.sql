-- Traces: `traceparent` is the span that enqueued a task, `trace` the id of an attempt's own trace.
ALTER TABLE redrive.task ADD COLUMN traceparent text;
ALTER TABLE redrive.ledger ADD COLUMN trace text;
ALTER TYPE redrive.ended_attempt ADD ATTRIBUTE trace text;

-- Workers report themselves: the release of the application, the kinds and categories that they run (NULL: all of
-- them, or not reported), and their machine. `since` is the time of the first heartbeat, `beat_at` that of the last.
ALTER TABLE redrive.worker
  ADD COLUMN release    text,
  ADD COLUMN kinds      text[],
  ADD COLUMN categories text[],
  ADD COLUMN host       text,
  ADD COLUMN grouping   text,    -- the algorithm and the rules by which it groups failures
  ADD COLUMN overruns   text[],  -- running tasks whose handlers go on although they were told to end
  ADD COLUMN since      bigint,
  ADD COLUMN beat_at    bigint;

-- The release that made an attempt. In `task` it belongs to the attempt that the task succeeded with, as `ran_*` do.
ALTER TABLE redrive.task   ADD COLUMN release text;
ALTER TABLE redrive.ledger ADD COLUMN release text;

ALTER TYPE redrive.ended_attempt ADD ATTRIBUTE release text;

-- Bulk acts on record. Members carry the id of their operation from their move on, and have answered once they have made
-- a counted attempt since. The record is JSON in `state`; the other columns are what statements search by.
CREATE TABLE redrive.operation (
  id         text COLLATE "C" PRIMARY KEY,
  created_at bigint  NOT NULL,
  open       boolean NOT NULL,
  state      text    NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX operation_created ON redrive.operation (created_at, id);

-- The outcomes of members, as changes to be summed up: no settlement waits for another's count.
CREATE TABLE redrive.operation_count (
  operation  text COLLATE "C" NOT NULL,
  passed     bigint NOT NULL DEFAULT 0,
  failed     bigint NOT NULL DEFAULT 0,
  unanswered bigint NOT NULL DEFAULT 0,
  succeeded  bigint NOT NULL DEFAULT 0,
  skipped    bigint NOT NULL DEFAULT 0,
  dead       bigint NOT NULL DEFAULT 0,
  cancelled  bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX operation_count_operation ON redrive.operation_count (operation);
CREATE VIEW redrive.operation_tally AS
  SELECT operation, sum(passed)::bigint AS passed, sum(failed)::bigint AS failed, sum(unanswered)::bigint AS unanswered,
    sum(succeeded)::bigint AS succeeded, sum(skipped)::bigint AS skipped, sum(dead)::bigint AS dead,
    sum(cancelled)::bigint AS cancelled
  FROM redrive.operation_count GROUP BY operation;

ALTER TABLE redrive.task
  ADD COLUMN operation text COLLATE "C",
  ADD COLUMN answered  boolean NOT NULL DEFAULT false;
CREATE INDEX task_operation ON redrive.task (operation, id) WHERE operation IS NOT NULL;

-- The state that an operator's act replaced, as JSON.
ALTER TABLE redrive.ledger ADD COLUMN before text;

ALTER TYPE redrive.ended_attempt
  ADD ATTRIBUTE operation text,
  ADD ATTRIBUTE answered  boolean;

-- Who paused lanes, when and why, and the task that holds a lane.
ALTER TABLE redrive.pause_rule
  ADD COLUMN at  bigint,
  ADD COLUMN who text,
  ADD COLUMN why text;
ALTER TABLE redrive.lane
  ADD COLUMN held_by    text,
  -- Since when it is idle, and the transaction that found so. It is deleted later: see `prune_lanes`.
  ADD COLUMN retired    bigint,
  ADD COLUMN retired_by bigint;
CREATE INDEX lane_retired ON redrive.lane (retired) WHERE retired IS NOT NULL;

-- Failure groups. The facts of a group are written once, when it is first seen, and its life when it changes. Its figures are rows to be added up: no
-- settlement waits for another's count. Hours of long ago are added up in hour 0.
CREATE TABLE redrive.failure_group (
  id         text COLLATE "C" PRIMARY KEY,
  kind       text COLLATE "C" NOT NULL,
  code       text   NOT NULL,
  error_name text   NOT NULL,
  pattern    text   NOT NULL,
  frames     text   NOT NULL,  -- a JSON array
  first_seen bigint NOT NULL,
  -- Its life. NULL: nobody has marked it.
  life       text,
  marked_at  bigint,
  who        text,
  why        text,
  details    text  -- a JSON object
);
CREATE INDEX failure_group_kind ON redrive.failure_group (kind);
CREATE TABLE redrive.group_tally (
  failure_group text COLLATE "C" NOT NULL,
  hour          bigint NOT NULL,
  seen          bigint NOT NULL DEFAULT 0,
  retrying      bigint NOT NULL DEFAULT 0,
  dead          bigint NOT NULL DEFAULT 0,
  last_seen     bigint NOT NULL DEFAULT 0  -- 0: not seen in this hour
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX group_tally_group ON redrive.group_tally (failure_group);
CREATE INDEX group_tally_hour  ON redrive.group_tally (hour);

-- Rules about groups, and the last grouping that all groups were gone through for.
CREATE TABLE redrive.group_rule (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind    text COLLATE "C",  -- NULL: every kind
  pattern text   NOT NULL,
  at      bigint NOT NULL,
  who     text   NOT NULL,
  why     text
);
CREATE TABLE redrive.regrouped (
  id       int PRIMARY KEY CHECK (id = 1),
  grouping text NOT NULL
);

-- A plain success leaves the group in its column, and nobody looks at it any more: one version of the row less. The other
-- two columns repeat `state` and `changed_at` for the index, while the task belongs to a group. They are NULL for a task
-- that never failed, so that its success changes no index. (Generated columns would cost every row that is written.)
ALTER TABLE redrive.task
  ADD COLUMN failure_group text COLLATE "C",
  ADD COLUMN failure_state smallint,
  ADD COLUMN failure_at    bigint;
CREATE INDEX task_group ON redrive.task (failure_group, failure_state, failure_at, id) WHERE failure_state IS NOT NULL;

ALTER TABLE redrive.ledger ADD COLUMN failure_group text COLLATE "C";

ALTER TYPE redrive.ended_attempt
  ADD ATTRIBUTE last_group    text,     -- of the task before
  ADD ATTRIBUTE is_failure    boolean,  -- of its group
  ADD ATTRIBUTE failure_group text;     -- of the task, as this attempt leaves it

-- The outcome of an attempt as a settlement reports it. `delay` is the time until the next attempt.
CREATE TYPE redrive.outcome AS (
  n             int,
  id            text COLLATE "C",
  round         int,
  advances      int,
  type          text,
  delay         float8,
  is_backoff    boolean,
  result        text,
  reason        text,
  attempt       int,
  began         bigint,
  ended         bigint,
  worker        text,
  error_class   text,
  error_code    text,
  retry_after   bigint,
  error         text,
  stack         text,
  random        float8,
  policy        text,
  version       text,
  call          text,
  trace         text,
  release       text,
  failure_group text
);

-- Retries under a budget wait in state -1, until they are due and then until the budget lets them through.
ALTER TABLE redrive.waiting ADD COLUMN budget bigint;
CREATE INDEX waiting_budgeted      ON redrive.waiting (budget, next_at, task) WHERE state = -1;
CREATE INDEX waiting_budgeted_lane ON redrive.waiting (lane)                  WHERE state = -1;

-- A ready task is found by its place in its lane, so only the others need an index by id.
ALTER TABLE redrive.waiting DROP CONSTRAINT waiting_pkey;
CREATE UNIQUE INDEX waiting_apart ON redrive.waiting (task) WHERE state <> 1;

CREATE OR REPLACE VIEW redrive.standing AS
  SELECT task.id, task.lane, coalesce(waiting.state, task.state) AS state, task.priority, task.submitted_at,
    task.started_at, greatest(its_claim.at, task.changed_at) AS changed_at, waiting.next_at, task.entries, task.attempts,
    task.deferrals, task.losses, task.undecided, task.previous_delay, task.error_class, task.error_code,
    task.error_message, task.reason, task.worker, task.ran_from, task.ran_to, task.ran_attempt, task.result, task.payload,
    task.value, task.cost, task.version, task.call, task.traceparent, task.release, task.operation, task.answered,
    CASE WHEN task.state NOT IN (4, 5) THEN task.failure_group END AS failure_group  -- succeeded, skipped
  FROM redrive.task
  LEFT JOIN LATERAL (
    SELECT ready.* FROM redrive.waiting AS ready
    WHERE ready.state = 1 AND ready.lane = task.lane AND ready.priority = task.priority  -- ready
      AND ready.submitted_at = task.submitted_at AND ready.task = task.id
    UNION ALL
    SELECT other.* FROM redrive.waiting AS other WHERE other.state <> 1 AND other.task = task.id
  ) AS waiting ON task.state = 3  -- running
  LEFT JOIN LATERAL (
    SELECT max(claim.at) AS at FROM redrive.claim
    WHERE task.state = 3 AND waiting.task IS NULL AND task.id = ANY (claim.tasks)  -- running
  ) AS its_claim ON true;

-- The lanes of tasks that ended together, so that lists of other lanes pass them over. NULL in rows from before.
ALTER TABLE redrive.ended ADD COLUMN task_lanes bigint[];
CREATE INDEX lane_key ON redrive.lane (key) WHERE key <> '';

-- Budgets of a kind, or of a kind and category, of failures, with their gate, and of retries: see
-- src/store/contract/budget-store.ts. `settings` and `gate` are JSON. `category` is NULL for all categories.
CREATE TABLE redrive.budget (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind     text COLLATE "C" NOT NULL,
  category text COLLATE "C",
  settings text NOT NULL,
  gate     text NOT NULL,
  is_open  boolean GENERATED ALWAYS AS (gate::jsonb -> 'since' IS NOT NULL) STORED,
  has_retries boolean GENERATED ALWAYS AS (settings::jsonb -> 'retries' IS NOT NULL) STORED
) WITH (fillfactor = 50);
CREATE INDEX budget_kind ON redrive.budget (kind);
CREATE INDEX budget_open   ON redrive.budget (id) WHERE is_open;
CREATE INDEX budget_active ON redrive.budget (id) WHERE is_open OR has_retries;

-- Ends of runs that budgets count, in steps of ten seconds, to be added up: no settlement waits for another's count.
-- `round` is that of the gate if it had let them through while it was open, and 0 otherwise.
CREATE TABLE redrive.budget_tally (
  budget     bigint NOT NULL,
  at         bigint NOT NULL,
  round      int    NOT NULL,
  failure    text COLLATE "C",  -- JSON: its code and its group
  ok         bigint NOT NULL,
  failed     bigint NOT NULL,
  unanswered bigint NOT NULL,
  first      bigint NOT NULL DEFAULT 0,  -- first attempts, which earn retries
  retried    bigint NOT NULL DEFAULT 0   -- retries that were let through
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX budget_tally_at ON redrive.budget_tally (budget, at);

-- Attempts of a lane that ended alike, as budgets count them. `answer` is 'ok', 'failed' or 'none'.
CREATE TYPE redrive.attempt_count AS (
  lane bigint, began bigint, answer text, failure text, is_first boolean, count bigint
);

-- An open gate, as a claim goes by it: how many more tasks it lets through, how many it has, and when to ask again.
CREATE TYPE redrive.gate AS (
  id bigint, kind text COLLATE "C", category text COLLATE "C", allowed int, taken int, next_look bigint
);

-- A claim lives for as long as its tasks run: compressing their ids would cost more than it saves.
ALTER TABLE redrive.claim ALTER COLUMN tasks SET STORAGE EXTERNAL;

-- Where all tables of a database are published (logical replication), PostgreSQL refuses to delete from a table that has
-- neither a key nor this. Elsewhere it costs nothing.
ALTER TABLE redrive.schema_version  REPLICA IDENTITY FULL;
ALTER TABLE redrive.waiting         REPLICA IDENTITY FULL;
ALTER TABLE redrive.ended           REPLICA IDENTITY FULL;
ALTER TABLE redrive.tally           REPLICA IDENTITY FULL;
ALTER TABLE redrive.shared_answer   REPLICA IDENTITY FULL;
ALTER TABLE redrive.operation_count REPLICA IDENTITY FULL;
ALTER TABLE redrive.group_tally     REPLICA IDENTITY FULL;
ALTER TABLE redrive.budget_tally    REPLICA IDENTITY FULL;
