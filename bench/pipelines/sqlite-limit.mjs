// The upper limit of SQLite itself: hand-written SQL, in batches. The simplest schema that keeps a row per item, a ledger
// row per stage, counts per stage, and the lease that a resumed run needs.
import Database from 'better-sqlite3'
import { items, STAGES } from './items.mjs'

const WORKER = 'machine-12345-0123abcd'
const POLICY = 'd7f0338bcfb4615240f15617ad0fbec388174b7bc82c07a0a688bc0a413f3f55'

const SCHEMA = /* sql */ `
  CREATE TABLE run (id TEXT PRIMARY KEY, position INTEGER NOT NULL) STRICT;
  CREATE TABLE stage (
    id INTEGER PRIMARY KEY, waiting INTEGER NOT NULL DEFAULT 0, running INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE TABLE item (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, stage INTEGER NOT NULL, state INTEGER NOT NULL,
    submitted_at INTEGER NOT NULL, started_at INTEGER NOT NULL, changed_at INTEGER NOT NULL, entries INTEGER NOT NULL,
    worker TEXT, token TEXT, ran_from INTEGER, ran_to INTEGER, ran_attempt INTEGER, value TEXT, result TEXT,
    payload TEXT NOT NULL
  ) STRICT;
  CREATE INDEX item_ready   ON item (stage, submitted_at, id) WHERE state = 1;
  CREATE INDEX item_running ON item (worker)                  WHERE state = 3;
  CREATE INDEX item_ended   ON item (state, changed_at)       WHERE state > 3;
  CREATE TABLE ledger (
    item INTEGER NOT NULL, sequence INTEGER NOT NULL, stage TEXT NOT NULL, attempt INTEGER NOT NULL,
    started_at INTEGER NOT NULL, ended_at INTEGER NOT NULL, worker TEXT NOT NULL, outcome TEXT NOT NULL, version TEXT,
    policy TEXT, PRIMARY KEY (item, sequence)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO run VALUES ('run', 0);
  INSERT INTO stage (id) VALUES (0), (1), (2);`

export function open(path) {
  const db = new Database(path)
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  db.exec(SCHEMA)
  return db
}

/**
 * Takes items from the source, `chunk` per commit, and carries them through all stages, `batch` of each stage per commit: a
 * stage's value is committed before the next stage starts.
 */
export function run(db, count, { batch, chunk }) {
  const take = taker(db, items(count), chunk)
  const { claim, advance, succeed, count: move } = statements(db)
  const last = STAGES.length - 1
  const running = STAGES.map(() => [])
  let taken = true
  for (let done = 0; done < count; ) {
    if (taken) taken = take()
    db.transaction(() => {
      const now = Date.now()
      for (const { seq, id, value } of running[last])
        succeed.run(now, value, now, now, seq, `${seq}:${last}:0123456789abcdef`, id)
      done += running[last].length
      move.run(0, -running[last].length, running[last].length, last)
      for (let stage = last; stage > 0; stage--) {
        running[stage] = running[stage - 1]
        for (const item of running[stage]) {
          const tokens = [`${item.seq}:${stage}:0123456789abcdef`, `${item.seq}:${stage - 1}:0123456789abcdef`]
          advance.item.run(stage, now, now, item.value, tokens[0], now, item.seq, tokens[1], item.id)
          advance.ledger.run(item.seq, stage, STAGES[stage - 1], now, now)
        }
        move.run(0, -running[stage].length, 0, stage - 1)
        move.run(0, running[stage].length, 0, stage)
      }
      running[0] = claim.ready.all(batch)
      for (const { seq } of running[0]) claim.start.run(now, `${seq}:0:0123456789abcdef`, now, seq)
      move.run(-running[0].length, running[0].length, 0, 0)
    }).immediate()
    for (const stage of running) for (const item of stage) work(item)
  }
}

/** Each stage parses its input and writes its output. */
function work(item) {
  item.value = JSON.stringify(JSON.parse(item.value ?? item.payload))
}

/** Returns a function that takes one chunk, and says whether there may be more. */
function taker(db, source, chunk) {
  const insert = db.prepare(/* sql */ `
    INSERT INTO item (id, stage, state, submitted_at, started_at, changed_at, entries, payload)
    VALUES (?, 0, 1, ?, ?, ?, 0, ?)`)
  const position = db.prepare(`UPDATE run SET position = ? WHERE id = 'run'`)
  const waiting = db.prepare('UPDATE stage SET waiting = waiting + ? WHERE id = 0')
  let taken = 0
  return () => {
    const payloads = []
    while (payloads.length < chunk) {
      const { value, done } = source.next()
      if (done) break
      payloads.push(JSON.stringify(value))
    }
    db.transaction(() => {
      const now = Date.now()
      for (const payload of payloads) insert.run(`run:${String(taken++).padStart(12, '0')}`, now, now, now, payload)
      position.run(taken)
      waiting.run(payloads.length)
    }).immediate()
    return payloads.length === chunk
  }
}

function statements(db) {
  return {
    claim: {
      ready: db.prepare(/* sql */ `
        SELECT seq, id, payload FROM item INDEXED BY item_ready WHERE state = 1 AND stage = 0
        ORDER BY submitted_at, id LIMIT ?`),
      start: db.prepare(/* sql */ `
        UPDATE item SET state = 3, changed_at = ?, worker = '${WORKER}', token = ?, ran_from = ? WHERE seq = ?`),
    },
    advance: {
      item: db.prepare(/* sql */ `
        UPDATE item
        SET stage = ?, started_at = ?, changed_at = ?, value = ?, token = ?, ran_from = ?, entries = entries + 1
        WHERE seq = ? AND token = ? AND id = ?`),
      ledger: db.prepare(/* sql */ `
        INSERT INTO ledger VALUES (?, ?, ?, 1, ?, ?, '${WORKER}', 'advanced', '1', '${POLICY}')`),
    },
    succeed: db.prepare(/* sql */ `
      UPDATE item
      SET state = 4, changed_at = ?, result = ?, value = NULL, ran_from = ?, ran_to = ?, ran_attempt = 1,
        token = NULL, entries = entries + 1
      WHERE seq = ? AND token = ? AND id = ?`),
    count: db.prepare(
      'UPDATE stage SET waiting = waiting + ?, running = running + ?, succeeded = succeeded + ? WHERE id = ?',
    ),
  }
}
