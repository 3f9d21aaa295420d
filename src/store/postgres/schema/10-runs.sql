-- Runs of pipelines. A run's record is JSON in `state`; the other columns are what statements search by. `dead` is the
-- number of dead items when the run last ended. `forgotten`: it is being pruned, and shown no more. `next_check` is how
-- many items must have been processed before the budget is looked at again; other stores use it.
--
-- Lanes of runs have ids from 2^40 on, so a task shows by its lane whether it is an item.
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

CREATE INDEX lane_run ON redrive.lane (key) WHERE id >= 1099511627776;

-- The lane of items that ended together; NULL for other tasks, which are pruned one by one.
ALTER TABLE redrive.ended ADD COLUMN lane bigint;
CREATE INDEX ended_items ON redrive.ended (lane, state, at) WHERE lane IS NOT NULL;
