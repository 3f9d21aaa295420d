-- The rows that functions hand to each other.

-- A part of what a worker asks for: these kinds, in these categories (NULL: all of them), up to so many tasks (NULL: as
-- many as the claim allows). `last_turn` is the lane that had the last turn.
CREATE TYPE redrive.room AS (kinds text[], categories text[], up_to int, last_turn bigint);

-- How many tasks a lane may give to a claim. NULL: another claim is taking from the lane right now.
CREATE TYPE redrive.share AS (lane bigint, allowance int);

-- Whether a lane may keep an item that advances to it: how many it may take, and the first task that is ready there.
CREATE TYPE redrive.opening AS (allowance int, priority float8, submitted_at bigint, task text COLLATE "C");

-- An open gate, as a claim goes by it: how many more tasks it lets through, how many it has, and when to ask again.
CREATE TYPE redrive.gate AS (
  id bigint, kind text COLLATE "C", category text COLLATE "C", allowed int, taken int, next_look bigint
);

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

-- An attempt that has ended, with its task as that leaves it.
CREATE TYPE redrive.ended_attempt AS (
  n              int,
  id             text COLLATE "C",
  lane           bigint,
  is_ordered     boolean,
  priority       float8,
  submitted_at   bigint,
  outcome        text,      -- 'cancelled' where the task would have waited again and somebody asked to cancel it
  state          smallint,  -- of the task's own row: running, unless it has ended
  next_at        bigint,    -- NULL unless the task waits again
  entries        int,
  attempts       int,
  deferrals      int,
  losses         int,
  is_undecided   boolean,
  previous_delay bigint,
  last_class     text,
  last_code      text,
  last_message   text,
  result         text,
  is_lost        boolean,
  is_recorded    boolean,   -- the ledger gets a row
  is_decision    boolean,   -- the ledger's row of a lost attempt is completed
  attempt        int,
  began          bigint,
  ended          bigint,
  worker         text,
  delay_ms       bigint,
  reason         text,
  error_class    text,
  error_code     text,
  retry_after    bigint,
  error          text,
  random         float8,
  policy         text,
  category       text,
  version        text,
  call           text,
  stack          text,
  trace          text,
  release        text,
  operation      text,
  answered       boolean,
  last_group     text,      -- of the task before
  is_failure     boolean,   -- of its group
  failure_group  text       -- of the task, as this attempt leaves it
);

-- Attempts of a lane that ended alike, as budgets count them. `answer` is 'ok', 'failed' or 'none'.
CREATE TYPE redrive.attempt_count AS (
  lane bigint, began bigint, answer text, failure text, is_first boolean, count bigint
);
