// The upper limit of PostgreSQL itself: hand-written SQL, in batches, one statement per batch and verb. The simplest schema
// that keeps a row per item, a ledger row per stage, counts per stage that two machines can write at once, and the lease
// that a resumed run needs.
import pg from 'pg'
import { items, STAGES } from './items.mjs'

const WORKER = 'machine-12345-0123abcd'
const POLICY = 'd7f0338bcfb4615240f15617ad0fbec388174b7bc82c07a0a688bc0a413f3f55'

const SCHEMA = /* sql */ `
  CREATE TABLE run (id text PRIMARY KEY, position bigint NOT NULL);
  CREATE TABLE tally (stage int NOT NULL, waiting bigint NOT NULL, running bigint NOT NULL, succeeded bigint NOT NULL);
  CREATE TABLE item (
    id text COLLATE "C" PRIMARY KEY, stage int NOT NULL, state smallint NOT NULL, round int NOT NULL,
    submitted_at bigint NOT NULL, started_at bigint NOT NULL, changed_at bigint NOT NULL, entries int NOT NULL,
    worker text, ran_from bigint, ran_to bigint, ran_attempt int, value text, result text, payload text NOT NULL
  ) WITH (fillfactor = 50);
  CREATE TABLE waiting (item text COLLATE "C" PRIMARY KEY, stage int NOT NULL, submitted_at bigint NOT NULL);
  CREATE INDEX waiting_ready ON waiting (stage, submitted_at, item);
  CREATE TABLE claim (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, worker text NOT NULL, items text[] NOT NULL);
  CREATE TABLE ended (state smallint NOT NULL, at bigint NOT NULL, items text[] NOT NULL);
  CREATE INDEX ended_at ON ended (state, at);
  CREATE TABLE ledger (
    item text COLLATE "C" NOT NULL, sequence int NOT NULL, stage text NOT NULL, attempt int NOT NULL,
    started_at bigint NOT NULL, ended_at bigint NOT NULL, worker text NOT NULL, outcome text NOT NULL, version text,
    policy text, PRIMARY KEY (item, sequence)
  );
  INSERT INTO run VALUES ('run', 0)`

export async function open(url) {
  const db = new pg.Client(url)
  await db.connect()
  await db.query(SCHEMA)
  return { db, close: () => db.end() }
}

const TAKE = /* sql */ `
  WITH added AS (
    INSERT INTO item (id, stage, state, round, submitted_at, started_at, changed_at, entries, payload)
    SELECT id, 0, 3, 0, $3, $3, $3, 0, payload FROM unnest($1::text[], $2::text[]) AS given (id, payload)
    ON CONFLICT (id) DO NOTHING
    RETURNING id
  ), queued AS (
    INSERT INTO waiting SELECT id, 0, $3 FROM added
  ), moved AS (
    UPDATE run SET position = position + cardinality($1) WHERE id = 'run'
  )
  INSERT INTO tally SELECT 0, count(*), 0, 0 FROM added`

const CLAIM = /* sql */ `
  WITH taken AS (
    DELETE FROM waiting
    WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM waiting WHERE stage = 0 ORDER BY submitted_at, item LIMIT $1 FOR UPDATE SKIP LOCKED
    ))
    RETURNING item
  ), started AS MATERIALIZED (
    SELECT id, round, payload FROM taken JOIN item ON id = taken.item
  ), claimed AS (
    INSERT INTO claim (worker, items) SELECT '${WORKER}', array_agg(id) FROM started HAVING count(*) > 0
  ), counted AS (
    INSERT INTO tally SELECT 0, -count(*), count(*), 0 FROM started
  )
  SELECT * FROM started`

const ADVANCE = /* sql */ `
  WITH advanced AS (
    UPDATE item
    SET stage = $4, started_at = $5, changed_at = $5, value = done.value, entries = entries + 1
    FROM unnest($1::text[], $2::int[], $3::text[]) AS done (id, round, value)
    WHERE item.id = done.id AND item.round = done.round AND item.stage = $4 - 1
    RETURNING item.id, item.entries
  ), recorded AS (
    INSERT INTO ledger SELECT id, entries, $6, 1, $5, $5, '${WORKER}', 'advanced', '1', '${POLICY}' FROM advanced
  )
  INSERT INTO tally SELECT $4 - 1, 0, -count(*), 0 FROM advanced UNION ALL SELECT $4, 0, count(*), 0 FROM advanced`

const SUCCEED = /* sql */ `
  WITH succeeded AS (
    UPDATE item
    SET state = 4, round = item.round + 1, changed_at = $4, result = done.result, value = NULL, entries = entries + 1,
      worker = '${WORKER}', ran_from = $4, ran_to = $4, ran_attempt = 1
    FROM unnest($1::text[], $2::int[], $3::text[]) AS done (id, round, result)
    WHERE item.id = done.id AND item.round = done.round
    RETURNING item.id
  ), listed AS (
    INSERT INTO ended SELECT 4, $4, array_agg(id) FROM succeeded
  ), unclaimed AS (
    DELETE FROM claim WHERE id = (SELECT min(id) FROM claim)
  )
  INSERT INTO tally SELECT ${STAGES.length - 1}, 0, -count(*), count(*) FROM succeeded`

/**
 * Takes items from the source, `chunk` per commit, and carries them through all stages, `batch` of each stage per commit: a
 * stage's value is committed before the next stage starts.
 */
export async function run({ db }, count, { batch, chunk }) {
  const take = taker(db, items(count), chunk)
  const last = STAGES.length - 1
  const running = STAGES.map(() => [])
  let taken = true
  for (let done = 0; done < count; ) {
    if (taken) taken = await take()
    const now = Date.now()
    await db.query('BEGIN')
    await inBatch(db, 'succeed', SUCCEED, running[last], [now])
    done += running[last].length
    for (let stage = last; stage > 0; stage--) {
      running[stage] = running[stage - 1]
      await inBatch(db, 'advance', ADVANCE, running[stage], [stage, now, STAGES[stage - 1]])
    }
    running[0] = (await db.query({ name: 'claim', text: CLAIM, values: [batch] })).rows
    await db.query('COMMIT')
    for (const stage of running) for (const item of stage) work(item)
  }
}

/** Each stage parses its input and writes its output. */
function work(item) {
  item.value = JSON.stringify(JSON.parse(item.value ?? item.payload))
}

async function inBatch(db, name, text, rows, others) {
  if (rows.length === 0) return
  const columns = [rows.map(({ id }) => id), rows.map(({ round }) => round), rows.map(({ value }) => value)]
  await db.query({ name, text, values: [...columns, ...others] })
}

/** Returns a function that takes one chunk, and says whether there may be more. */
function taker(db, source, chunk) {
  let taken = 0
  return async () => {
    const payloads = []
    while (payloads.length < chunk) {
      const { value, done } = source.next()
      if (done) break
      payloads.push(JSON.stringify(value))
    }
    const ids = payloads.map((_, n) => `run:${String(taken + n).padStart(12, '0')}`)
    taken += payloads.length
    if (ids.length > 0) await db.query({ name: 'take', text: TAKE, values: [ids, payloads, Date.now()] })
    return payloads.length === chunk
  }
}
