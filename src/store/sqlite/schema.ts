/** Identifies Redrive's files in their header: `RDRV`. */
export const APPLICATION_ID = 0x52445256

/**
 * The migrations from each schema version to the next. Once a version is released its text never changes: add another.
 *
 * - Lanes without a key have negative ids and the others positive ones, so that the ready tasks of both sorts stand apart
 *   in their index. Lanes of runs have ids from 2^40 on (`FIRST_RUN_LANE`), which are not given twice, so items are told
 *   from other tasks by their lane: they have an index of their own, since they are pruned with their run. A lane counts
 *   its tasks by status, so the cost of a count depends on the number of lanes.
 * - The attempt that a task succeeded with is kept in the task's own row (`ran_*`, `version`, `call`, `release`), not in the
 *   ledger: most tasks succeed at once, so they take one row in all. `entries` counts the rows of the history, including
 *   that one.
 * - A task that waits for its time is scheduled. In an ordered lane it stays ready instead, at the head of the lane, and
 *   the lane is held until then.
 * - The indexes are partial, so a task pays only for those of its state. States: -1 budgeted, 0 scheduled, 1 ready, 2 ready to
 *   run alone, 3 running, 4 succeeded, 5 skipped, 6 dead, 7 cancelled.
 * - Long texts stand last in their row: a column behind one costs reading all of it.
 */
export const MIGRATIONS: readonly string[] = [
  /* sql */ `
    CREATE TABLE lane (
      id          INTEGER PRIMARY KEY,
      kind        TEXT    NOT NULL,
      category    TEXT    NOT NULL,
      key         TEXT    NOT NULL,
      paused      INTEGER NOT NULL,
      held_until  INTEGER NOT NULL DEFAULT 0,
      held_by     TEXT,              -- the task that holds it
      ramp        INTEGER,           -- after a hold: how many may run at once
      concurrency INTEGER,
      per_second  REAL,
      ordered     INTEGER NOT NULL DEFAULT 0,
      blocking    INTEGER NOT NULL DEFAULT 0,  -- ordered, and stops at dead letters
      tokens      REAL    NOT NULL DEFAULT 0,
      refilled_at INTEGER NOT NULL DEFAULT 0,
      shared      INTEGER,           -- the limit that it shares with others
      waiting     INTEGER NOT NULL DEFAULT 0,
      running     INTEGER NOT NULL DEFAULT 0,
      succeeded   INTEGER NOT NULL DEFAULT 0,
      skipped     INTEGER NOT NULL DEFAULT 0,
      dead        INTEGER NOT NULL DEFAULT 0,
      cancelled   INTEGER NOT NULL DEFAULT 0,
      UNIQUE (kind, category, key)
    ) STRICT;
    CREATE INDEX lane_kind    ON lane (kind);
    CREATE INDEX lane_run     ON lane (key)        WHERE id >= 1099511627776;
    CREATE INDEX lane_held    ON lane (held_until) WHERE held_until > 0;
    CREATE INDEX lane_limited ON lane (id)         WHERE per_second IS NOT NULL;
    CREATE INDEX lane_bounded ON lane (id)         WHERE ramp IS NOT NULL OR concurrency IS NOT NULL;
    -- Only lanes with work: most lanes of a limit may be idle, such as those of runs that have ended.
    CREATE INDEX lane_shared  ON lane (shared)     WHERE shared IS NOT NULL AND waiting + running > 0;
    CREATE INDEX lane_sharing ON lane (shared)     WHERE shared IS NOT NULL;

    -- Counts the lanes that runs ever had. It has no rows.
    CREATE TABLE run_lane (id INTEGER PRIMARY KEY AUTOINCREMENT) STRICT;

    -- The last rule that matches a lane holds; NULL matches all.
    CREATE TABLE pause_rule (
      id       INTEGER PRIMARY KEY,
      kind     TEXT    NOT NULL,
      category TEXT,
      key      TEXT,
      paused   INTEGER NOT NULL,
      at       INTEGER,
      who      TEXT,
      why      TEXT
    ) STRICT;
    CREATE TABLE limit_rule (
      id          INTEGER PRIMARY KEY,
      kind        TEXT    NOT NULL,
      category    TEXT,
      key         TEXT,
      concurrency INTEGER,
      per_second  REAL,
      ordered     INTEGER NOT NULL,
      blocking    INTEGER NOT NULL
    ) STRICT;

    -- Limits that several lanes share: by kind, by kind and category, or by quota. The row of a kind whose quota is empty has
    -- what limits each of its quotas.
    CREATE TABLE shared_limit (
      id       INTEGER PRIMARY KEY,
      kind     TEXT    NOT NULL,
      category TEXT,
      limits   TEXT    NOT NULL,  -- JSON
      state    TEXT    NOT NULL,  -- JSON
      quota    TEXT
    ) STRICT;
    CREATE INDEX        shared_limit_rule  ON shared_limit (kind)        WHERE quota IS NULL;
    CREATE UNIQUE INDEX shared_limit_quota ON shared_limit (kind, quota) WHERE quota IS NOT NULL;
    -- The last limits that code declared. An operator's limits hold until a declaration differs from the last one.
    CREATE TABLE declared_limit (
      lanes  TEXT PRIMARY KEY,  -- JSON: {kind, category}
      limits TEXT NOT NULL      -- JSON
    ) STRICT;

    CREATE TABLE task (
      seq              INTEGER PRIMARY KEY,
      id               TEXT    NOT NULL UNIQUE,
      lane             INTEGER NOT NULL,
      state            INTEGER NOT NULL,
      priority         REAL    NOT NULL,
      submitted_at     INTEGER NOT NULL,
      started_at       INTEGER NOT NULL,
      changed_at       INTEGER NOT NULL,
      next_at          INTEGER,
      entries          INTEGER NOT NULL DEFAULT 0,
      attempts         INTEGER NOT NULL DEFAULT 0,
      deferrals        INTEGER NOT NULL DEFAULT 0,
      losses           INTEGER NOT NULL DEFAULT 0,
      undecided        INTEGER NOT NULL DEFAULT 0,
      has_steps        INTEGER NOT NULL DEFAULT 0,
      cancel_requested INTEGER NOT NULL DEFAULT 0,
      previous_delay   INTEGER,
      blocks           INTEGER,           -- the lane that it blocks while it is dead
      budget           INTEGER,           -- of its retries: it is budgeted until that has let it through
      -- While it runs: the part of its token that all tasks of its claim have in common. Its place in the index of running
      -- tasks stays the same while it advances from lane to lane.
      claim            TEXT,
      worker           TEXT,
      ran_from         INTEGER,           -- while it runs: when it was claimed
      ran_to           INTEGER,
      ran_attempt      INTEGER,
      version          TEXT,
      call             TEXT,
      release          TEXT,
      error_class      TEXT,
      error_code       TEXT,
      reason           TEXT,
      failure_group    TEXT,
      operation        TEXT,              -- the one that moved it
      answered         INTEGER NOT NULL DEFAULT 0,  -- it has made a counted attempt since
      traceparent      TEXT,              -- the span that enqueued it
      cost             TEXT,              -- a JSON object: how much of each bucket
      unique_key       TEXT,              -- the one that it was enqueued with; the table of that name tells who has it
      unique_while     TEXT,
      policy           TEXT,              -- the fields of its policy that are its own, as JSON
      error_message    TEXT,
      result           TEXT,
      value            TEXT,              -- the input of an item's present stage; NULL in the first
      payload          TEXT    NOT NULL
    ) STRICT;
    CREATE INDEX task_budgeted      ON task (budget, next_at, id)                   WHERE state = -1;
    CREATE INDEX task_budgeted_lane ON task (lane)                                  WHERE state = -1;
    CREATE INDEX task_scheduled     ON task (next_at)                               WHERE state = 0;
    CREATE INDEX item_scheduled     ON task (lane)                                  WHERE state = 0 AND lane >= 1099511627776;
    CREATE INDEX task_ready         ON task (lane, priority DESC, submitted_at, id) WHERE state = 1;
    CREATE INDEX task_alone         ON task (priority DESC, submitted_at, id)       WHERE state = 2;
    CREATE INDEX task_blocking      ON task (blocks, priority DESC, submitted_at, id) WHERE state = 6 AND blocks IS NOT NULL;
    CREATE INDEX task_running       ON task (state)                                 WHERE state = 3;
    -- With the lane, so that a list of rare lanes reads the index alone until it finds one.
    CREATE INDEX task_ended         ON task (state, changed_at, lane)               WHERE state > 3 AND lane < 1099511627776;
    CREATE INDEX item_ended         ON task (state, changed_at, lane)               WHERE state > 3 AND lane >= 1099511627776;
    -- Without running tasks, so that neither the claim of a retry nor its success writes an entry.
    CREATE INDEX task_error ON task (error_code, changed_at, lane)     WHERE error_code IS NOT NULL AND state <> 3;
    CREATE INDEX task_group ON task (failure_group, state, changed_at) WHERE failure_group IS NOT NULL AND state <> 3;
    CREATE INDEX task_operation ON task (operation, id) WHERE operation IS NOT NULL;
    CREATE INDEX task_unique    ON task (unique_key)    WHERE unique_key IS NOT NULL;

    -- Unique keys: the task that has each, and the one that waits for its end. src/store/rules/unique.ts tells more. until:
    -- of a key that is taken for a time.
    CREATE TABLE unique_key (
      kind    TEXT    NOT NULL,
      key     TEXT    NOT NULL,
      task    TEXT    NOT NULL,
      since   INTEGER NOT NULL,
      until   INTEGER,
      next    TEXT,
      next_at INTEGER,
      PRIMARY KEY (kind, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX unique_key_until ON unique_key (until) WHERE until IS NOT NULL;

    -- stack: where the code failed, a line for each frame. trace: the id of the attempt's own trace. before: the state that an
    -- operator's act replaced, as JSON.
    CREATE TABLE ledger (
      task          INTEGER NOT NULL,
      sequence      INTEGER NOT NULL,
      attempt       INTEGER NOT NULL,
      started_at    INTEGER NOT NULL,
      ended_at      INTEGER NOT NULL,
      worker        TEXT    NOT NULL,
      outcome       TEXT    NOT NULL,
      category      TEXT,
      delay_ms      INTEGER,
      reason        TEXT,
      error_class   TEXT,
      error_code    TEXT,
      retry_after   INTEGER,
      random        REAL,
      policy        TEXT,
      version       TEXT,
      call          TEXT,
      release       TEXT,
      trace         TEXT,
      failure_group TEXT,
      error         TEXT,
      stack         TEXT,
      before        TEXT,
      notes         TEXT,  -- JSON: progress, the last lines, the step that ended the attempt
      PRIMARY KEY (task, sequence)
    ) STRICT, WITHOUT ROWID;

    -- The steps of tasks, in the order in which they were first recorded. state: the attempts, as JSON.
    CREATE TABLE step (
      sequence INTEGER PRIMARY KEY,
      task     INTEGER NOT NULL,
      name     TEXT    NOT NULL,
      done     INTEGER NOT NULL,
      state    TEXT    NOT NULL,
      result   TEXT,
      UNIQUE (task, name)
    ) STRICT;

    CREATE TABLE policy (
      hash   TEXT PRIMARY KEY,
      policy TEXT NOT NULL
    ) STRICT;

    -- No id is given twice, so that who reads on after the last one misses none when older ones are gone.
    CREATE TABLE audit (
      id     INTEGER PRIMARY KEY AUTOINCREMENT,
      at     INTEGER NOT NULL,
      record TEXT    NOT NULL
    ) STRICT;

    -- Each lease has its length: one that ends later than its length from now was written by a clock that was ahead. The
    -- reports of workers: kinds, categories, overruns and notes are JSON.
    CREATE TABLE worker (
      id         TEXT    PRIMARY KEY,
      until      INTEGER NOT NULL,
      lease_ms   INTEGER,
      release    TEXT,
      kinds      TEXT,
      categories TEXT,
      host       TEXT,
      grouping   TEXT,
      overruns   TEXT,
      paused     INTEGER NOT NULL DEFAULT 0,
      notes      TEXT,
      since      INTEGER,
      beat_at    INTEGER
    ) STRICT;

    -- Done once it has a result.
    CREATE TABLE idempotency (
      key         TEXT    PRIMARY KEY,
      fingerprint TEXT    NOT NULL,
      token       TEXT    NOT NULL,
      until       INTEGER NOT NULL,
      lease_ms    INTEGER,
      result      TEXT,
      done_at     INTEGER
    ) STRICT;
    CREATE INDEX idempotency_done ON idempotency (done_at) WHERE done_at IS NOT NULL;

    -- Records of features whose state is a JSON document: src/store/port/record-port.ts tells more. place is a time.
    CREATE TABLE record (
      type  TEXT    NOT NULL,
      id    TEXT    NOT NULL,
      place INTEGER NOT NULL,
      open  INTEGER NOT NULL,
      state TEXT    NOT NULL,
      PRIMARY KEY (type, id)
    ) STRICT;
    CREATE INDEX record_place ON record (type, place, id);
    CREATE INDEX record_open  ON record (type, place, id) WHERE open = 1;

    -- Runs: their records, the positions of items with ids of their own, and results that are to be written out.
    CREATE TABLE run (
      id         TEXT    PRIMARY KEY,
      pipeline   TEXT    NOT NULL,
      created_at INTEGER NOT NULL,
      ended_at   INTEGER,
      dead       INTEGER NOT NULL,  -- items, when it last ended
      forgotten  INTEGER NOT NULL,  -- it is being pruned
      has_output INTEGER NOT NULL,
      next_check INTEGER,           -- the budget is looked at once this many items were processed; NULL: never
      state      TEXT    NOT NULL   -- the record, as JSON
    ) STRICT;
    CREATE INDEX run_created   ON run (created_at, id);
    CREATE INDEX run_ended     ON run (ended_at) WHERE ended_at IS NOT NULL;
    CREATE INDEX run_forgotten ON run (id)       WHERE forgotten = 1;
    CREATE TABLE run_item (
      run      TEXT    NOT NULL,
      position INTEGER NOT NULL,
      task     TEXT    NOT NULL,
      PRIMARY KEY (run, position)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE run_output (
      run  TEXT NOT NULL,
      task TEXT NOT NULL,
      PRIMARY KEY (run, task)
    ) STRICT, WITHOUT ROWID;

    -- Bulk acts are records of the type 'operation', whose place is the time of their creation. Members carry the id of
    -- their operation from their move on; these are their outcomes.
    CREATE TABLE operation_tally (
      operation  TEXT    PRIMARY KEY,
      passed     INTEGER NOT NULL,
      failed     INTEGER NOT NULL,
      unanswered INTEGER NOT NULL,
      succeeded  INTEGER NOT NULL,
      skipped    INTEGER NOT NULL,
      dead       INTEGER NOT NULL,
      cancelled  INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- Failure groups: the facts of each, written once, and its figures by hour. Hours of long ago are added up in hour 0.
    CREATE TABLE failure_group (
      id         TEXT    PRIMARY KEY,
      kind       TEXT    NOT NULL,
      code       TEXT    NOT NULL,
      error_name TEXT    NOT NULL,
      pattern    TEXT    NOT NULL,
      frames     TEXT    NOT NULL,  -- a JSON array
      first_seen INTEGER NOT NULL,
      -- Its life. NULL: nobody has marked it.
      life       TEXT,
      marked_at  INTEGER,
      who        TEXT,
      why        TEXT,
      details    TEXT  -- a JSON object
    ) STRICT;
    CREATE INDEX failure_group_kind ON failure_group (kind);
    CREATE TABLE group_tally (
      failure_group TEXT    NOT NULL,
      hour          INTEGER NOT NULL,
      seen          INTEGER NOT NULL,
      retrying      INTEGER NOT NULL,
      dead          INTEGER NOT NULL,
      last_seen     INTEGER NOT NULL,  -- 0: not seen in this hour
      PRIMARY KEY (failure_group, hour)
    ) STRICT, WITHOUT ROWID;

    -- What attempts have spent, by lane, hour and bucket. It outlives the lanes.
    CREATE TABLE cost_tally (
      kind     TEXT    NOT NULL,
      key      TEXT    NOT NULL,
      category TEXT    NOT NULL,
      hour     INTEGER NOT NULL,
      bucket   TEXT    NOT NULL,
      amount   REAL    NOT NULL,
      PRIMARY KEY (kind, key, category, hour, bucket)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX cost_tally_hour ON cost_tally (hour);

    -- Budgets of a kind, or of a kind and category: of failures, with their gate, and of retries.
    CREATE TABLE budget (
      id       INTEGER PRIMARY KEY,
      kind     TEXT NOT NULL,
      category TEXT,                          -- NULL: all categories
      settings TEXT NOT NULL,                 -- JSON
      gate     TEXT NOT NULL,                 -- JSON
      counts   TEXT NOT NULL DEFAULT '{"buckets":[],"probes":{"ok":0,"failed":0,"none":0}}',  -- JSON: recent attempts
      retries  TEXT NOT NULL DEFAULT '[]',    -- JSON: recent first attempts and retries
      spent    TEXT NOT NULL DEFAULT '[]'     -- JSON: what attempts have spent in the last windows
    ) STRICT;

    -- Views for your own queries and dashboards: docs/sql.md is their contract. Columns are only ever
    -- added, at the end. A partial index serves a query only if its conditions are repeated.
    CREATE VIEW attempts AS
      SELECT task.id AS task, lane.kind, ifnull(ledger.category, '') AS category, lane.key, ledger.sequence,
             ledger.attempt, ledger.outcome, ledger.error_class AS class, ledger.error_code AS code, ledger.error,
             ledger.reason, ledger.delay_ms, ledger.worker,
             strftime('%Y-%m-%dT%H:%M:%fZ', ledger.started_at / 1000.0, 'unixepoch') AS started_at,
             strftime('%Y-%m-%dT%H:%M:%fZ', ledger.ended_at / 1000.0, 'unixepoch')   AS ended_at,
             ledger.ended_at - ledger.started_at AS duration_ms, ledger.trace, ledger.release, ledger.failure_group
      FROM ledger JOIN task ON task.seq = ledger.task JOIN lane ON lane.id = task.lane
      WHERE ledger.attempt > 0
      UNION ALL
      SELECT task.id, lane.kind, lane.category, lane.key, task.entries, task.ran_attempt, 'succeeded', NULL, NULL, NULL,
             NULL, NULL, task.worker,
             strftime('%Y-%m-%dT%H:%M:%fZ', task.ran_from / 1000.0, 'unixepoch'),
             strftime('%Y-%m-%dT%H:%M:%fZ', task.ran_to / 1000.0, 'unixepoch'),
             task.ran_to - task.ran_from,
             CASE WHEN task.entries = 1
                 OR NOT EXISTS (SELECT 1 FROM ledger AS earlier WHERE earlier.task = task.seq AND earlier.attempt > 0)
               THEN substr(task.traceparent, 4, 32) END,
             task.release, NULL
      FROM task JOIN lane ON lane.id = task.lane
      WHERE task.state = 4 AND task.ran_attempt IS NOT NULL  -- succeeded
        AND NOT EXISTS (SELECT 1 FROM ledger WHERE ledger.task = task.seq AND ledger.sequence = task.entries);

    CREATE VIEW dead_letters AS
      SELECT letter.id, lane.kind, lane.category, lane.key, letter.reason, letter.error_class AS class,
             letter.error_code AS code, letter.error_message AS error, letter.attempts, letter.deferrals, letter.losses,
             letter.payload,
             strftime('%Y-%m-%dT%H:%M:%fZ', letter.submitted_at / 1000.0, 'unixepoch') AS submitted_at,
             strftime('%Y-%m-%dT%H:%M:%fZ', letter.changed_at / 1000.0, 'unixepoch')   AS died_at,
             letter.failure_group
      FROM (
        SELECT * FROM task WHERE state = 6 AND state > 3 AND lane < 1099511627776
        UNION ALL
        SELECT * FROM task WHERE state = 6 AND state > 3 AND lane >= 1099511627776
      ) AS letter
      JOIN lane ON lane.id = letter.lane;

    -- The figures are those of redrive groups ls: by hour, to be added up. The state is the last mark, or regressed.
    CREATE VIEW failure_groups AS
      SELECT its.id, its.kind, its.code, its.pattern, ifnull(sum(tally.seen), 0) AS seen,
             ifnull(sum(tally.retrying), 0) AS retrying, ifnull(sum(tally.dead), 0) AS dead,
             strftime('%Y-%m-%dT%H:%M:%fZ', its.first_seen / 1000.0, 'unixepoch') AS first_seen,
             strftime('%Y-%m-%dT%H:%M:%fZ', max(its.first_seen, ifnull(max(tally.last_seen), 0)) / 1000.0, 'unixepoch')
               AS last_seen,
             ifnull(its.life, 'new') AS state,
             strftime('%Y-%m-%dT%H:%M:%fZ', its.marked_at / 1000.0, 'unixepoch') AS marked_at, its.who AS marked_by,
             its.details ->> iif(its.life = 'fixed', '$.release', '$.fixedIn') AS fixed_in,
             strftime('%Y-%m-%dT%H:%M:%fZ', (its.details ->> '$.until.at') / 1000.0, 'unixepoch') AS ignored_until,
             iif(its.life = 'regressed', its.details ->> '$.release', NULL) AS regressed_in
      FROM failure_group AS its LEFT JOIN group_tally AS tally ON tally.failure_group = its.id
      GROUP BY its.id;
  `,
]
