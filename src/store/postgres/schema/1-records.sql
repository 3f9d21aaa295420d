-- Records about many tasks: runs, operations, failure groups and budgets. Counts are changes to be summed up, as in
-- 1-tables.sql.

-- Records of features whose state is a JSON document: src/store/port/record-port.ts tells more. `place` is a time.
CREATE TABLE redrive.record (
  type  text COLLATE "C" NOT NULL,
  id    text COLLATE "C" NOT NULL,
  place bigint  NOT NULL,
  open  boolean NOT NULL,
  state text    NOT NULL,
  PRIMARY KEY (type, id)
) WITH (fillfactor = 70);
CREATE INDEX record_place ON redrive.record (type, place, id);
CREATE INDEX record_open  ON redrive.record (type, place, id) WHERE open;

-- Runs of pipelines. A run's record is JSON in `state`; the other columns are what statements search by. `dead` is the
-- number of dead items when the run last ended. `forgotten`: it is being pruned, and shown no more. `next_check` is how
-- many items must have been processed before the budget is looked at again; other stores use it.
CREATE TABLE redrive.run (
  id         text COLLATE "C" PRIMARY KEY,
  pipeline   text COLLATE "C" NOT NULL,
  created_at bigint  NOT NULL,
  ended_at   bigint,
  dead       bigint  NOT NULL,
  forgotten  boolean NOT NULL,
  has_output boolean NOT NULL,
  next_check bigint,
  state      text    NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX run_created   ON redrive.run (created_at, id);
CREATE INDEX run_ended     ON redrive.run (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX run_forgotten ON redrive.run (id)       WHERE forgotten;

-- The positions of items that have ids of their own. All others have them in their ids.
CREATE TABLE redrive.run_item (
  run      text COLLATE "C" NOT NULL,
  position bigint NOT NULL,
  task     text COLLATE "C" NOT NULL,
  PRIMARY KEY (run, position)
);

-- Succeeded items that have not been written out.
CREATE TABLE redrive.run_output (
  run  text COLLATE "C" NOT NULL,
  task text COLLATE "C" NOT NULL,
  PRIMARY KEY (run, task)
);

-- Bulk acts are records of the type `operation`, whose place is the time of their creation. Members carry the id of their
-- operation from their move on; these are their outcomes.
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
ALTER TABLE redrive.operation_count REPLICA IDENTITY FULL;
CREATE INDEX operation_count_operation ON redrive.operation_count (operation);
CREATE VIEW redrive.operation_tally AS
  SELECT operation, sum(passed)::bigint AS passed, sum(failed)::bigint AS failed, sum(unanswered)::bigint AS unanswered,
    sum(succeeded)::bigint AS succeeded, sum(skipped)::bigint AS skipped, sum(dead)::bigint AS dead,
    sum(cancelled)::bigint AS cancelled
  FROM redrive.operation_count GROUP BY operation;

-- Failure groups. The facts of a group are written once, when it is first seen, and its life when it changes.
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

-- The figures of groups, by hour. Hours of long ago are added up in hour 0.
CREATE TABLE redrive.group_tally (
  failure_group text COLLATE "C" NOT NULL,
  hour          bigint NOT NULL,
  seen          bigint NOT NULL DEFAULT 0,
  retrying      bigint NOT NULL DEFAULT 0,
  dead          bigint NOT NULL DEFAULT 0,
  last_seen     bigint NOT NULL DEFAULT 0  -- 0: not seen in this hour
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE redrive.group_tally REPLICA IDENTITY FULL;
CREATE INDEX group_tally_group ON redrive.group_tally (failure_group);
CREATE INDEX group_tally_hour  ON redrive.group_tally (hour);

-- What attempts have spent, by lane, hour and bucket, in rows to be added up. It outlives the lanes. The sums of `numeric` are
-- exact, so they are the same in whatever order rows are added up.
CREATE TABLE redrive.cost_tally (
  kind     text COLLATE "C" NOT NULL,
  key      text COLLATE "C" NOT NULL,
  category text COLLATE "C" NOT NULL,
  hour     bigint NOT NULL,
  bucket   text COLLATE "C" NOT NULL,
  amount   numeric NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE redrive.cost_tally REPLICA IDENTITY FULL;
CREATE INDEX cost_tally_lane ON redrive.cost_tally (kind, key);
CREATE INDEX cost_tally_hour ON redrive.cost_tally (hour);

-- Budgets of a kind, or of a kind and category, of failures, with their gate, and of retries: see
-- src/store/contract/budget-store.ts. `settings` and `gate` are JSON. `category` is NULL for all categories.
CREATE TABLE redrive.budget (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind        text COLLATE "C" NOT NULL,
  category    text COLLATE "C",
  settings    text NOT NULL,
  gate        text NOT NULL,
  is_open     boolean GENERATED ALWAYS AS (gate::jsonb -> 'since' IS NOT NULL) STORED,
  has_retries boolean GENERATED ALWAYS AS (settings::jsonb -> 'retries' IS NOT NULL) STORED,
  has_costs   boolean GENERATED ALWAYS AS (settings::jsonb -> 'cost' IS NOT NULL) STORED
) WITH (fillfactor = 50);
CREATE INDEX budget_kind   ON redrive.budget (kind);
CREATE INDEX budget_open   ON redrive.budget (id) WHERE is_open;
CREATE INDEX budget_active ON redrive.budget (id) WHERE is_open OR has_retries OR has_costs;
CREATE INDEX budget_costs  ON redrive.budget (id) WHERE has_costs;

-- What attempts have told that they spent, by cost budget and window, in rows to be added up. The rows without a bucket count
-- the attempts.
CREATE TABLE redrive.budget_cost (
  budget   bigint NOT NULL,
  at       bigint NOT NULL,  -- the start of the window
  bucket   text COLLATE "C",
  amount   float8 NOT NULL,
  attempts bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE redrive.budget_cost REPLICA IDENTITY FULL;
CREATE INDEX budget_cost_at ON redrive.budget_cost (budget, at);

-- Ends of runs that budgets count, in steps of one or ten seconds. `round` is that of the gate if it had let them through
-- while it was open, and 0 otherwise. `floor_at` is when the floor had nothing, in rows that let retries through.
CREATE TABLE redrive.budget_tally (
  budget     bigint NOT NULL,
  at         bigint NOT NULL,
  round      int    NOT NULL,
  failure    text COLLATE "C",  -- JSON: its code and its group
  ok         bigint NOT NULL,
  failed     bigint NOT NULL,
  unanswered bigint NOT NULL,
  first      bigint NOT NULL DEFAULT 0,  -- first attempts, which earn retries
  retried    bigint NOT NULL DEFAULT 0,  -- retries that were let through
  floor_at   float8
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE redrive.budget_tally REPLICA IDENTITY FULL;
CREATE INDEX budget_tally_at ON redrive.budget_tally (budget, at);
