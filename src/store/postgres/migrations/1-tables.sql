-- The tables of the store. `redrive.` stands for the schema that the store was given.
--
-- - Lanes without a key have negative ids and the others positive ones, so that the ready tasks of both sorts stand
--   apart in their index.
-- - The attempt that a task succeeded with is kept in the task's own row (`ran_*`), not in the ledger: most tasks
--   succeed at once, and so have one row in all. `entries` counts the rows of the history, that one included.
-- - What waits for its time is scheduled. In an ordered lane it stays ready instead, and so first in the order of its
--   lane, which is held until then.
-- - The indexes are partial, so that a task pays only for those of the state it is in.
-- - States: 0 scheduled, 1 ready, 2 ready to run alone, 3 running, 4 succeeded, 5 skipped, 6 dead, 7 cancelled.
-- - Times are milliseconds since the epoch. Texts that are compared or ordered have the collation "C": the same order
--   everywhere, and the fastest.

CREATE SEQUENCE redrive.lane_id;

CREATE TABLE redrive.lane (
  id          bigint PRIMARY KEY,
  kind        text COLLATE "C" NOT NULL,
  category    text COLLATE "C" NOT NULL,
  key         text COLLATE "C" NOT NULL,
  paused      boolean NOT NULL,
  held_until  bigint  NOT NULL DEFAULT 0,
  ramp        int,               -- after a hold: how many may run at once
  concurrency int,
  per_second  float8,
  ordered     boolean NOT NULL DEFAULT false,
  tokens      float8  NOT NULL DEFAULT 0,
  refilled_at bigint  NOT NULL DEFAULT 0,
  UNIQUE (kind, category, key)
) WITH (fillfactor = 50);
CREATE INDEX lane_held    ON redrive.lane (held_until) WHERE held_until > 0;
CREATE INDEX lane_limited ON redrive.lane (id)         WHERE per_second IS NOT NULL;
CREATE INDEX lane_bounded ON redrive.lane (id)         WHERE ramp IS NOT NULL OR concurrency IS NOT NULL;

-- How many tasks of a lane are in each status, as changes to be added up: nobody waits for another's count.
-- Heartbeats fold many rows into one.
CREATE TABLE redrive.tally (
  lane      bigint NOT NULL,
  waiting   bigint NOT NULL DEFAULT 0,
  running   bigint NOT NULL DEFAULT 0,
  succeeded bigint NOT NULL DEFAULT 0,
  skipped   bigint NOT NULL DEFAULT 0,
  dead      bigint NOT NULL DEFAULT 0,
  cancelled bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The last rule that matches a lane holds; NULL matches all.
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
  state            smallint NOT NULL,
  priority         float8   NOT NULL,
  submitted_at     bigint   NOT NULL,
  started_at       bigint   NOT NULL,
  changed_at       bigint   NOT NULL,
  next_at          bigint,
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
  token            text COLLATE "C",
  ran_from         bigint,       -- while it runs: when it was claimed
  ran_to           bigint,
  ran_attempt      int,
  result           text,
  payload          text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX task_scheduled ON redrive.task (next_at)                               WHERE state = 0;
CREATE INDEX task_ready     ON redrive.task (lane, priority DESC, submitted_at, id) WHERE state = 1;
CREATE INDEX task_alone     ON redrive.task (priority DESC, submitted_at, id)       WHERE state = 2;
CREATE INDEX task_running   ON redrive.task (lane, worker)                          WHERE state = 3;
CREATE INDEX task_ended     ON redrive.task (state, changed_at, id)                 WHERE state > 3;
CREATE INDEX task_error     ON redrive.task (error_code, changed_at, id)            WHERE error_code IS NOT NULL;

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

-- Done once it has a result.
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

-- The clock of the database, unless a test brings its own.
CREATE FUNCTION redrive.now_ms(at bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(at, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- The status that a state is a part of.
CREATE FUNCTION redrive.status_of(state smallint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT (ARRAY['waiting', 'waiting', 'waiting', 'running', 'succeeded', 'skipped', 'dead', 'cancelled'])[state + 1]
$$;
