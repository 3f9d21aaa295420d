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
--   round is random, since an id may be used again once its task is pruned.
-- - The attempt that a task succeeded with is kept in the task's own row (`ran_*`), not in the ledger, so that a task that
--   succeeds at once has a single row. `entries` counts the rows of its history, including that one.
-- - A task that waits for its time is `scheduled`. In an ordered lane it stays `ready` instead, and so keeps its place at
--   the head of the lane, which is held until then.
-- - Lanes without a key have negative ids, all others positive ones, so that their ready tasks are apart in the index.
-- - Times are milliseconds since the epoch. Texts that are compared or ordered have the collation "C", which is the same
--   everywhere, and the fastest.
--
-- States are named in functions/states.sql: 0 scheduled, 1 ready, 2 ready to run alone, 3 running, 4 succeeded, 5
-- skipped, 6 dead, 7 cancelled. The schema repeats the numbers, since nothing in it may depend on a function that can
-- be replaced.

CREATE TABLE redrive.schema_version (
  version int NOT NULL
);
INSERT INTO redrive.schema_version VALUES (0);

CREATE SEQUENCE redrive.lane_id;

CREATE TABLE redrive.lane (
  id          bigint PRIMARY KEY,
  kind        text COLLATE "C" NOT NULL,
  category    text COLLATE "C" NOT NULL,
  key         text COLLATE "C" NOT NULL,
  paused      boolean NOT NULL,
  held_until  bigint  NOT NULL DEFAULT 0,
  ramp        int,               -- after a hold: how many tasks may run at once
  concurrency int,
  per_second  float8,
  ordered     boolean NOT NULL DEFAULT false,
  last_place  bigint,            -- in an ordered lane: the `submitted_at` of the last task that started
  tokens      float8  NOT NULL DEFAULT 0,
  refilled_at bigint  NOT NULL DEFAULT 0,
  UNIQUE (kind, category, key)
) WITH (fillfactor = 50);
CREATE INDEX lane_kind    ON redrive.lane (kind, id);
CREATE INDEX lane_held    ON redrive.lane (held_until) WHERE held_until > 0;
CREATE INDEX lane_ramping ON redrive.lane (id)         WHERE ramp IS NOT NULL;
-- The earliest time at which a lane with a rate may start its next task.
CREATE INDEX lane_limited ON redrive.lane ((refilled_at + (1 - tokens) * 1000 / per_second)) WHERE per_second IS NOT NULL;
CREATE INDEX lane_bounded ON redrive.lane (id)         WHERE ramp IS NOT NULL OR concurrency IS NOT NULL;

-- How many tasks of a lane are in each status, as changes to be summed up, so that no transaction waits for another's
-- count. Now and then many rows are folded into one.
CREATE TABLE redrive.tally (
  lane      bigint NOT NULL,
  waiting   bigint NOT NULL DEFAULT 0,
  running   bigint NOT NULL DEFAULT 0,
  succeeded bigint NOT NULL DEFAULT 0,
  skipped   bigint NOT NULL DEFAULT 0,
  dead      bigint NOT NULL DEFAULT 0,
  cancelled bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX tally_lane ON redrive.tally (lane);

-- Rules for lanes that do not exist yet. The last rule that matches a lane holds; NULL matches everything.
CREATE TABLE redrive.pause_rule (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind     text COLLATE "C" NOT NULL,
  category text COLLATE "C",
  key      text COLLATE "C",
  paused   boolean NOT NULL
);
CREATE TABLE redrive.limit_rule (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind        text COLLATE "C" NOT NULL,
  category    text COLLATE "C",
  key         text COLLATE "C",
  concurrency int,
  per_second  float8,
  ordered     boolean NOT NULL
);

CREATE TABLE redrive.task (
  id               text COLLATE "C" PRIMARY KEY,
  lane             bigint   NOT NULL,
  state            smallint NOT NULL DEFAULT 3,  -- running
  round            int      NOT NULL DEFAULT floor(random() * 1000000000)::int,
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
  result           text,
  payload          text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX task_error ON redrive.task (error_code) WHERE error_code IS NOT NULL;

-- The indexes are partial, so that a task is in the index of its state only.
CREATE TABLE redrive.waiting (
  task         text COLLATE "C" PRIMARY KEY,
  lane         bigint   NOT NULL,
  state        smallint NOT NULL,
  priority     float8   NOT NULL,
  submitted_at bigint   NOT NULL,
  next_at      bigint   NOT NULL,
  alone        boolean  NOT NULL DEFAULT false  -- must run alone once it is due
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX waiting_scheduled ON redrive.waiting (next_at)                                 WHERE state = 0;  -- scheduled
CREATE INDEX waiting_ready     ON redrive.waiting (lane, priority DESC, submitted_at, task) WHERE state = 1;  -- ready
CREATE INDEX waiting_alone     ON redrive.waiting (priority DESC, submitted_at, task)       WHERE state = 2;  -- ready, alone

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

CREATE TABLE redrive.ended (
  state smallint NOT NULL,
  at    bigint   NOT NULL,
  tasks text[] COLLATE "C" NOT NULL
);
CREATE INDEX ended_at ON redrive.ended (state, at);

-- Each task as it stands. The claim is looked up for running tasks only.
CREATE VIEW redrive.standing AS
  SELECT task.id, task.lane, coalesce(waiting.state, task.state) AS state, task.priority, task.submitted_at,
    task.started_at, coalesce(its_claim.at, task.changed_at) AS changed_at, waiting.next_at, task.entries, task.attempts,
    task.deferrals, task.losses, task.undecided, task.previous_delay, task.error_class, task.error_code,
    task.error_message, task.reason, task.worker, task.ran_from, task.ran_to, task.ran_attempt, task.result, task.payload
  FROM redrive.task
  LEFT JOIN redrive.waiting ON waiting.task = task.id
  LEFT JOIN LATERAL (
    SELECT max(claim.at) AS at FROM redrive.claim
    WHERE task.state = 3 AND waiting.task IS NULL AND task.id = ANY (claim.tasks)  -- running
  ) AS its_claim ON true;

CREATE TABLE redrive.ledger (
  task        text COLLATE "C" NOT NULL,
  sequence    int    NOT NULL,
  attempt     int    NOT NULL,
  started_at  bigint NOT NULL,
  ended_at    bigint NOT NULL,
  worker      text   NOT NULL,
  outcome     text   NOT NULL,
  delay_ms    bigint,
  reason      text,
  error_class text,
  error_code  text,
  retry_after bigint,
  error       text,
  random      float8,
  policy      text,
  PRIMARY KEY (task, sequence)
);

CREATE TABLE redrive.worker (
  id    text COLLATE "C" PRIMARY KEY,
  until bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE redrive.policy (
  hash   text COLLATE "C" PRIMARY KEY,
  policy text NOT NULL
);

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

CREATE TABLE redrive.audit (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at     bigint NOT NULL,
  record text NOT NULL
);

-- How many tasks a lane may give to a claim. NULL: another claim is taking from the lane right now.
CREATE TYPE redrive.share AS (lane bigint, allowance int);
