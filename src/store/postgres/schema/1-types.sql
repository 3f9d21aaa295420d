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
  id bigint, kind text COLLATE "C", category text COLLATE "C", allowed int, started int, next_look bigint
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
  failure_group text,
  notes         text
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
  notes          text,
  operation      text,
  answered       boolean,
  last_group     text,      -- of the task before
  is_failure     boolean,   -- of its group
  failure_group  text,      -- of the task, as this attempt leaves it
  is_keyed       boolean    -- it was enqueued with a unique key
);

-- Attempts of a lane that ended alike, as budgets count them. `answer` is 'ok', 'failed' or 'none'.
CREATE TYPE redrive.attempt_count AS (
  lane bigint, began bigint, answer text, failure text, is_first boolean, count bigint
);

-- Settlements, column by column. A worker sends them as JSON with these keys (src/store/postgres/settlement-batch.ts), without
-- the columns of which no row has a value, and with a single element in those whose rows all have the same.
CREATE TYPE redrive.settlement_columns AS (
  -- A row for each plain success, and for each advance, which has a `next`.
  ids         text[] COLLATE "C",
  rounds      int[],
  advances    int[],
  lanes       bigint[],   -- of the tasks, as their tokens have them
  results     text[],     -- of an advance: the input of its next stage; an argument of its own
  attempts    int[],      -- 0: none was made
  began       bigint[],
  took        bigint[],
  workers     text[],
  versions    text[],
  calls       text[],
  releases    text[],
  nexts       int[],      -- the position in `next_lanes`, and later in `to_lanes`
  keeps       boolean[],  -- whether the worker asks to keep the item; absent: all of them
  costs       text[],
  details     json[],     -- the verdict of the attempt, and whatever else no column has a place for
  item_claims bigint[],   -- of an advance
  -- For the batch as a whole.
  next_lanes  json,       -- the argument of `lanes_after`
  to_lanes    bigint[],   -- the lanes that it returns; set by `settle`
  uses        json,       -- what attempts took from shared limits: the argument of `correct_uses`
  others      json,       -- all other outcomes: the argument of `settle_outcomes`
  claims      bigint[],   -- how many successes and others belong to which claim
  counts      int[]
);

-- New tasks, column by column, as JSON with these keys (src/store/postgres/enqueue.ts), without the columns of which no row has
-- a value.
CREATE TYPE redrive.new_task_columns AS (
  ids          text[] COLLATE "C",
  lane_numbers int[],     -- the `n` of their lanes; the first element also stands for those that are absent
  priorities   float8[],
  submitted    bigint[],
  due          bigint[],
  payloads     text[],    -- an argument of its own
  costs        text[],
  traceparents text[],
  policies     text[],    -- JSON
  rounds       int[],     -- of tasks that were tried elsewhere: `tried` decides where they stand
  tried_for    bigint[],
  unique_keys   text[] COLLATE "C",
  unique_whiles text[],   -- the first element also stands for those that are absent
  withins       bigint[],
  conflicts     text[],   -- likewise
  max_waits     bigint[],
  -- For the batch as a whole.
  lanes        json,      -- an array of {n, kind, category, key, quota}
  are_new      boolean,   -- the ids were made for these tasks, and no task brings a time of its own
  tried        json       -- the outcomes of first attempts: the argument of `settle_outcomes`
);

-- The place that a task that waits gets, and the one that it had. `place` is its row in `waiting`.
CREATE TYPE redrive.new_place AS (
  id           text COLLATE "C",
  lane         bigint,
  entries      int,
  place        tid,
  ordered      boolean,
  was_due      bigint,
  was_priority float8,
  was_start    bigint,
  next_at      bigint,
  priority     float8,
  start        bigint
);

-- A unique key that a task asks for: `UniqueKey` of src/store/contract/task.ts. `who` cancels what it stands in for.
CREATE TYPE redrive.unique_asked AS (
  kind text, key text, scope text, within bigint, conflict text, max_wait bigint, who text
);
