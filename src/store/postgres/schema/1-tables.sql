-- The tables of the store. `redrive.` stands for the schema that the store was given.
--
-- A task's own row, in `task`, is written when the task is enqueued and when an attempt has ended, and not in between.
-- Narrower rows say where the task stands meanwhile:
--
-- - `waiting` has a row for each task that waits. A claim deletes it.
-- - `claim` has a row for each batch of tasks that a worker claimed.
-- - `ended` has a row for each batch of tasks that ended together in the same state. Lists and pruning find tasks by it.
--
-- So a task that succeeds at once costs two versions of its row, and the second fits on the same page: no index
-- changes. That holds only as long as no index of `task` has a column that a success changes.
--
-- - A task that has not ended has the state `running` in its own row. It runs unless it has a row in `waiting`.
-- - `round` changes whenever a task changes hands, so id and round together tell whether a claim is still valid. The first
--   round is random, since an id may be used again once its task is pruned. An item of a pipeline that its worker keeps
--   stays in its round, so that its claim still names it: `advances` counts how often it has advanced, so id, round and
--   advances together tell whether a token is still valid.
-- - The attempt that a task succeeded with is kept in the task's own row (`ran_*`, `version`, `call`, `release`), not in the
--   ledger, so that a task that succeeds at once has a single row. `entries` counts the rows of its history, including
--   that one.
-- - A task that waits for its time is `scheduled`. In an ordered lane it stays `ready` instead, and so keeps its place at
--   the head of the lane, which is held until then.
-- - Lanes without a key have negative ids, all others positive ones, so that their ready tasks are apart in the index. Lanes
--   of runs have ids from 2^40 on, so a task shows by its lane whether it is an item.
-- - Counts are changes to be summed up, so that no transaction waits for another's count. Now and then many rows are folded
--   into one.
-- - A table without a primary key is its own replica identity: where all tables of a database are published (logical
--   replication), PostgreSQL refuses to delete from one that has neither. Elsewhere it costs nothing.
-- - Times are milliseconds since the epoch. Texts that are compared or ordered have the collation "C", which is the same
--   everywhere, and the fastest.
--
-- States are named in functions/states.sql: -1 budgeted, 0 scheduled, 1 ready, 2 ready to run alone, 3 running, 4 succeeded,
-- 5 skipped, 6 dead, 7 cancelled. The schema repeats the numbers, since nothing in it may depend on a function that can
-- be replaced.

-- Functions have a version of their own: `functions` grows with every release that changes them, and `hash` is the hash
-- of their text. `oldest` is the oldest schema version whose code may still open the store.
CREATE TABLE redrive.schema_version (
  version   int  NOT NULL,
  functions int  NOT NULL,
  hash      text NOT NULL,
  oldest    int  NOT NULL
);
ALTER TABLE redrive.schema_version REPLICA IDENTITY FULL;
INSERT INTO redrive.schema_version VALUES (0, 0, '', 0);

-- Lanes

CREATE SEQUENCE redrive.lane_id;

CREATE TABLE redrive.lane (
  id          bigint PRIMARY KEY,
  kind        text COLLATE "C" NOT NULL,
  category    text COLLATE "C" NOT NULL,
  key         text COLLATE "C" NOT NULL,
  paused      boolean NOT NULL,
  held_until  bigint  NOT NULL DEFAULT 0,
  held_by     text,              -- the task that holds it
  ramp        int,               -- after a hold: how many tasks may run at once
  concurrency int,
  per_second  float8,
  ordered     boolean NOT NULL DEFAULT false,
  blocking    boolean NOT NULL DEFAULT false,  -- ordered, and stops at dead letters
  last_place  bigint,            -- in an ordered lane: the `submitted_at` of the last task that started
  tokens      float8  NOT NULL DEFAULT 0,
  refilled_at bigint  NOT NULL DEFAULT 0,
  shared      bigint,            -- the limit that it shares with others
  -- Since when it is idle, and the transaction that found so. It is deleted later: see `prune_lanes`.
  retired     bigint,
  retired_by  bigint,
  UNIQUE (kind, category, key)
) WITH (fillfactor = 50);
CREATE INDEX lane_kind    ON redrive.lane (kind, id);
CREATE INDEX lane_key     ON redrive.lane (key)        WHERE key <> '';
CREATE INDEX lane_run     ON redrive.lane (key)        WHERE id >= 1099511627776;
CREATE INDEX lane_held    ON redrive.lane (held_until) WHERE held_until > 0;
CREATE INDEX lane_ramping ON redrive.lane (id)         WHERE ramp IS NOT NULL;
-- The earliest time at which a lane with a rate may start its next task.
CREATE INDEX lane_limited ON redrive.lane ((refilled_at + (1 - tokens) * 1000 / per_second)) WHERE per_second IS NOT NULL;
CREATE INDEX lane_bounded ON redrive.lane (id)         WHERE ramp IS NOT NULL OR concurrency IS NOT NULL;
CREATE INDEX lane_shared  ON redrive.lane (shared, id) WHERE shared IS NOT NULL;
CREATE INDEX lane_retired ON redrive.lane (retired)    WHERE retired IS NOT NULL;

-- How many tasks of a lane are in each status.
CREATE TABLE redrive.tally (
  lane      bigint NOT NULL,
  waiting   bigint NOT NULL DEFAULT 0,
  running   bigint NOT NULL DEFAULT 0,
  succeeded bigint NOT NULL DEFAULT 0,
  skipped   bigint NOT NULL DEFAULT 0,
  dead      bigint NOT NULL DEFAULT 0,
  cancelled bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE redrive.tally REPLICA IDENTITY FULL;
CREATE INDEX tally_lane ON redrive.tally (lane);

-- Rules for lanes that do not exist yet. The last rule that matches a lane holds; NULL matches everything.
CREATE TABLE redrive.pause_rule (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind     text COLLATE "C" NOT NULL,
  category text COLLATE "C",
  key      text COLLATE "C",
  paused   boolean NOT NULL,
  at       bigint,
  who      text,
  why      text
);
CREATE TABLE redrive.limit_rule (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind        text COLLATE "C" NOT NULL,
  category    text COLLATE "C",
  key         text COLLATE "C",
  concurrency int,
  per_second  float8,
  ordered     boolean NOT NULL,
  blocking    boolean NOT NULL
);

-- Limits that the lanes of a kind share, of a kind and category, or of a quota. `limits` and `state` are JSON: see
-- functions/shared.sql. The row of a kind whose quota is empty has what limits each of its quotas.
CREATE TABLE redrive.shared_limit (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind     text COLLATE "C" NOT NULL,
  category text COLLATE "C",
  limits   text NOT NULL,
  state    text NOT NULL,
  quota    text COLLATE "C",
  opens_at bigint NOT NULL DEFAULT 0  -- of a quota: until then it refused a task, or is held
) WITH (fillfactor = 50);
CREATE INDEX        shared_limit_rule    ON redrive.shared_limit (kind)        WHERE quota IS NULL;
CREATE UNIQUE INDEX shared_limit_quota   ON redrive.shared_limit (quota, kind) WHERE quota IS NOT NULL;
CREATE INDEX        shared_limit_opening ON redrive.shared_limit (opens_at)    WHERE opens_at > 0;

-- Answers in these lanes, by second.
CREATE TABLE redrive.shared_answer (
  shared bigint NOT NULL,
  second bigint NOT NULL,
  count  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE redrive.shared_answer REPLICA IDENTITY FULL;
CREATE INDEX shared_answer_shared ON redrive.shared_answer (shared);

-- The last limits that code declared, by JSON of kind and category. An operator's limits hold until a declaration differs
-- from the last one.
CREATE TABLE redrive.declared_limit (
  lanes  text COLLATE "C" PRIMARY KEY,
  limits text NOT NULL
);

-- Tasks

CREATE TABLE redrive.task (
  id               text COLLATE "C" PRIMARY KEY,
  lane             bigint   NOT NULL,
  state            smallint NOT NULL DEFAULT 3,  -- running
  round            int      NOT NULL DEFAULT floor(random() * 1000000000)::int,
  advances         int      NOT NULL DEFAULT 0,
  priority         float8   NOT NULL,
  submitted_at     bigint   NOT NULL,
  started_at       bigint   NOT NULL,
  changed_at       bigint   NOT NULL,
  next_at          bigint,       -- as enqueued; `waiting.next_at` is the one that counts
  entries          int      NOT NULL DEFAULT 0,
  attempts         int      NOT NULL DEFAULT 0,
  deferrals        int      NOT NULL DEFAULT 0,
  losses           int      NOT NULL DEFAULT 0,
  undecided        boolean  NOT NULL DEFAULT false,
  has_steps        boolean  NOT NULL DEFAULT false,
  cancel_requested boolean  NOT NULL DEFAULT false,
  previous_delay   bigint,
  error_class      text,
  error_code       text COLLATE "C",
  error_message    text,
  reason           text,
  worker           text COLLATE "C",
  ran_from         bigint,
  ran_to           bigint,
  ran_attempt      int,
  version          text,
  call             text,
  release          text,
  result           text,
  payload          text     NOT NULL,
  value            text,         -- the input of an item's present stage; NULL in the first
  cost             text,         -- JSON: how much it takes from each bucket of a shared limit
  traceparent      text,         -- the span that enqueued it
  blocks           bigint,       -- the lane that it blocks while it is dead; in an index, where no success changes it
  -- The operation that moved it, and whether it has made a counted attempt since.
  operation        text COLLATE "C",
  answered         boolean  NOT NULL DEFAULT false,
  -- A plain success leaves the group in its column, and nobody looks at it any more: one version of the row less. The other
  -- two columns repeat `state` and `changed_at` for the index, while the task belongs to a group. They are NULL for a task
  -- that never failed, so that its success changes no index. (Generated columns would cost every row that is written.)
  failure_group    text COLLATE "C",
  failure_state    smallint,
  failure_at       bigint,
  -- The unique key that it was enqueued with; the table of that name tells who has it. No success changes them.
  unique_key       text COLLATE "C",
  unique_while     text,
  policy           text          -- the fields of its policy that are its own, as JSON
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX task_error     ON redrive.task (error_code)    WHERE error_code IS NOT NULL;
CREATE INDEX task_operation ON redrive.task (operation, id) WHERE operation IS NOT NULL;
CREATE INDEX task_blocking  ON redrive.task (blocks, priority DESC, submitted_at, id) WHERE blocks IS NOT NULL;
CREATE INDEX task_group     ON redrive.task (failure_group, failure_state, failure_at, id) WHERE failure_state IS NOT NULL;

CREATE INDEX task_unique    ON redrive.task (unique_key)    WHERE unique_key IS NOT NULL;

-- Unique keys: the task that has each, since when, and the one that waits for its end. `until`: of a key that is taken for a
-- time. functions/unique.sql tells more.
CREATE TABLE redrive.unique_key (
  kind    text COLLATE "C" NOT NULL,
  key     text COLLATE "C" NOT NULL,
  task    text COLLATE "C" NOT NULL,
  since   bigint NOT NULL,
  until   bigint,
  next    text COLLATE "C",
  next_at bigint,
  PRIMARY KEY (kind, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX unique_key_until ON redrive.unique_key (until) WHERE until IS NOT NULL;

-- The indexes are partial, so that a task is in the index of its state only. A ready task is found by its place in its lane,
-- so only the others need an index by id. Retries under a budget are budgeted until they are due and the budget lets them
-- through.
CREATE TABLE redrive.waiting (
  task         text COLLATE "C" NOT NULL,
  lane         bigint   NOT NULL,
  state        smallint NOT NULL,
  priority     float8   NOT NULL,
  submitted_at bigint   NOT NULL,
  next_at      bigint   NOT NULL,
  alone        boolean  NOT NULL DEFAULT false,  -- must run alone once it is due
  budget       bigint
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE redrive.waiting REPLICA IDENTITY FULL;
CREATE UNIQUE INDEX waiting_apart ON redrive.waiting (task) WHERE state <> 1;
CREATE INDEX waiting_scheduled     ON redrive.waiting (next_at)                                 WHERE state = 0;
CREATE INDEX waiting_ready         ON redrive.waiting (lane, priority DESC, submitted_at, task) WHERE state = 1;
CREATE INDEX waiting_alone         ON redrive.waiting (priority DESC, submitted_at, task)       WHERE state = 2;
CREATE INDEX waiting_budgeted      ON redrive.waiting (budget, next_at, task)                   WHERE state = -1;
CREATE INDEX waiting_budgeted_lane ON redrive.waiting (lane)                                    WHERE state = -1;

-- The tasks of a claim that still run are those whose round is the one they were claimed in. `unsettled` is at least
-- their number. The row is deleted once that is 0, or once a heartbeat has found that none of its tasks runs any more.
CREATE TABLE redrive.claim (
  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  worker    text COLLATE "C" NOT NULL,
  at        bigint NOT NULL,
  tasks     text[] COLLATE "C" NOT NULL,
  rounds    int[]  NOT NULL,
  unsettled int    NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX claim_worker ON redrive.claim (worker);
-- A claim lives for as long as its tasks run: compressing their ids would cost more than it saves.
ALTER TABLE redrive.claim ALTER COLUMN tasks SET STORAGE EXTERNAL;

CREATE TABLE redrive.ended (
  state      smallint NOT NULL,
  at         bigint   NOT NULL,
  lane       bigint,    -- of items; NULL for other tasks, which are pruned one by one
  tasks      text[] COLLATE "C" NOT NULL,
  task_lanes bigint[] NOT NULL  -- so that lists of other lanes pass them over
);
ALTER TABLE redrive.ended REPLICA IDENTITY FULL;
CREATE INDEX ended_at    ON redrive.ended (state, at);
CREATE INDEX ended_items ON redrive.ended (lane, state, at) WHERE lane IS NOT NULL;

-- Each task as it stands. The claim is looked up for running tasks only: one of them has been in its state since it was
-- claimed, or since it advanced to its lane.
CREATE VIEW redrive.standing AS
  SELECT task.id, task.lane, coalesce(waiting.state, task.state) AS state, task.priority, task.submitted_at,
    task.started_at, greatest(its_claim.at, task.changed_at) AS changed_at, waiting.next_at, task.entries, task.attempts,
    task.deferrals, task.losses, task.undecided, task.previous_delay, task.error_class, task.error_code,
    task.error_message, task.reason, task.worker, task.ran_from, task.ran_to, task.ran_attempt, task.result, task.payload,
    task.value, task.cost, task.version, task.call, task.traceparent, task.release, task.operation, task.answered, task.has_steps, task.blocks,
    task.unique_key, task.unique_while, task.policy,
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

-- History

-- `stack` is where the code failed, a line for each frame. `trace` is the id of the attempt's own trace. `before` is the
-- state that an operator's act replaced, as JSON.
CREATE TABLE redrive.ledger (
  task          text COLLATE "C" NOT NULL,
  sequence      int    NOT NULL,
  attempt       int    NOT NULL,
  started_at    bigint NOT NULL,
  ended_at      bigint NOT NULL,
  worker        text   NOT NULL,
  outcome       text   NOT NULL,
  delay_ms      bigint,
  reason        text,
  error_class   text,
  error_code    text,
  retry_after   bigint,
  error         text,
  stack         text,
  random        float8,
  policy        text,
  category      text   NOT NULL,
  version       text,
  call          text,
  trace         text,
  release       text,
  before        text,
  failure_group text COLLATE "C",
  notes         text,  -- JSON: progress, the last lines, the step that ended the attempt
  PRIMARY KEY (task, sequence)
);

-- The steps of tasks, in the order in which they were first recorded. `state` is JSON: the attempts.
CREATE TABLE redrive.step (
  sequence bigint GENERATED ALWAYS AS IDENTITY,
  task     text COLLATE "C" NOT NULL,
  name     text COLLATE "C" NOT NULL,
  done     boolean NOT NULL,
  result   text,
  state    text    NOT NULL,
  PRIMARY KEY (task, name)
);

CREATE TABLE redrive.policy (
  hash   text COLLATE "C" PRIMARY KEY,
  policy text NOT NULL
);

CREATE TABLE redrive.audit (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at     bigint NOT NULL,
  record text NOT NULL
);

-- Workers and keys

-- Workers report themselves: the release of the application, the kinds and categories that they run (NULL: all of
-- them, or not reported), and their machine. `since` is the time of the first heartbeat, `beat_at` that of the last.
CREATE TABLE redrive.worker (
  id         text COLLATE "C" PRIMARY KEY,
  until      bigint NOT NULL,
  release    text,
  kinds      text[],
  categories text[],
  host       text,
  grouping   text,    -- the algorithm and the rules by which it groups failures
  overruns   text[],  -- running tasks whose handlers go on although they were told to end
  paused     boolean NOT NULL DEFAULT false,
  notes      json,    -- what running attempts have told of their progress, by task
  since      bigint,
  beat_at    bigint
) WITH (fillfactor = 50);

-- A key is done once it has a result.
CREATE TABLE redrive.idempotency (
  key         text COLLATE "C" PRIMARY KEY,
  fingerprint text   NOT NULL,
  token       text   NOT NULL,
  until       bigint NOT NULL,
  result      text,
  done_at     bigint
);
CREATE INDEX idempotency_done ON redrive.idempotency (done_at) WHERE done_at IS NOT NULL;
