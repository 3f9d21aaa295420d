-- In version 7 a loss cost an attempt. First, while no table is locked: all tasks are read for it.
UPDATE redrive.task
SET attempts = attempts - (
  SELECT count(*) FROM redrive.ledger
  WHERE ledger.task = task.id AND ledger.outcome = 'lost' AND ledger.sequence > (
    SELECT coalesce(max(redriven.sequence), 0) FROM redrive.ledger AS redriven
    WHERE redriven.task = task.id AND redriven.outcome = 'redriven'
  )
)
WHERE losses > 0;

-- Functions have a version of their own: `functions` grows with every release that changes them, and `hash` is the hash
-- of their text. `oldest` is the oldest schema version whose code may still open the store.
ALTER TABLE redrive.schema_version
  ADD COLUMN functions int  NOT NULL DEFAULT 0,
  ADD COLUMN hash      text NOT NULL DEFAULT '',
  ADD COLUMN oldest    int  NOT NULL DEFAULT 7;

-- In version 7 the default called a function.
ALTER TABLE redrive.task ALTER COLUMN round SET DEFAULT floor(random() * 1000000000)::int;

-- A part of what a worker asks for: these kinds, in these categories (NULL: all of them), up to so many tasks (NULL: as
-- many as the claim allows). `last_turn` is the lane that had the last turn.
CREATE TYPE redrive.room AS (kinds text[], categories text[], up_to int, last_turn bigint);

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
  policy         text
);
