// One sweep over 1 000 000 documents of which 10 000 are stuck, on PostgreSQL and RabbitMQ, beside the same by hand. By the
// clock on the wall; a sweep that finds nothing by CPU time.
import amqp from 'amqplib'
import pg from 'pg'
import { openRabbitmq } from '../../dist/bus/rabbitmq/index.js'
import { openPostgresSource, sweeper } from '../../dist/document/index.js'
import { start as startRabbitmq } from '../events/rabbitmq.mjs'
import { median } from '../interleave.mjs'
import { withServer } from '../postgres/server.mjs'

const DOCUMENTS = 1_000_000
const STUCK = 10_000
const PAGE = 500
const ROUNDS = 5
const TYPE = 'archive.ingested'

const archives = {
  name: 'archives',
  fields: { attemptCount: 'attempt_count', lastAttemptTime: 'last_attempt_time' },
  event: {
    type: TYPE,
    name: 'ArchiveIngested',
    data: ({ id, data }) => ({ archive_id: id, file_path: data.file_path }),
  },
  blastRadius: { isWarning: true },
}

await withServer(async server => {
  const broker = await startRabbitmq()
  const pool = new pg.Pool({ connectionString: await server.createDatabase(), max: 4 })
  const bus = await openRabbitmq(broker.url)
  const connection = await amqp.connect(broker.url, { noDelay: true })
  const channel = await connection.createConfirmChannel()
  try {
    await bus.declare({ parsing: TYPE })
    await fill(pool)
    const source = await openPostgresSource(pool)
    const job = sweeper({ source, bus, collections: [archives] })
    for (const { shape } of job.collections) await source.createIndexes(shape)

    // The memory of one sweep, before anything else has run here.
    await makeStuck(pool)
    await swept(job)
    const peakMb = process.resourceUsage().maxRSS / 1024
    const times = { 'by hand': [], redrive: [] }
    const contestants = { 'by hand': () => byHand(pool, channel), redrive: () => swept(job) }
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [name, sweep] of Object.entries(contestants)) {
        await makeStuck(pool)
        await channel.purgeQueue('parsing')
        const start = performance.now()
        const sent = await sweep()
        const took = performance.now() - start
        if (sent !== STUCK) throw new Error(`${name} sent ${sent} documents.`)
        if (round > 0) times[name].push(took)
      }
    }
    const idle = []
    for (let round = 0; round < 21; round++) {
      const before = process.cpuUsage()
      await job.sweep()
      const { user, system } = process.cpuUsage(before)
      idle.push((user + system) / 1000)
    }
    console.log(JSON.stringify(figures(times, median(idle), peakMb)))
  } finally {
    await connection.close()
    await bus.close()
    await pool.end()
    await broker.close()
  }
})

function figures(times, idleMs, peakMb) {
  const rows = Object.entries(times).map(([name, all]) => ({
    name,
    ms: median(all),
    ratio: median(all.map((ms, round) => ms / times['by hand'][round])),
  }))
  const columns = [
    { key: 'ms', head: 'ms per sweep', digits: 0 },
    { key: 'ratio', head: '× by hand', digits: 2 },
  ]
  return [
    {
      title: `A sweep over ${DOCUMENTS} documents of which ${STUCK} are stuck, PostgreSQL and RabbitMQ`,
      columns,
      rows,
      target: { row: 'redrive', key: 'ratio', max: 2 },
    },
    {
      title: 'The peak memory of a process that makes one such sweep',
      columns: [{ key: 'mb', head: 'MB', digits: 0 }],
      rows: [{ name: 'redrive', mb: peakMb }],
      target: { row: 'redrive', key: 'mb', max: 150 },
    },
    {
      title: 'The CPU time of a sweep that finds nothing',
      columns: [{ key: 'ms', head: 'ms', digits: 1 }],
      rows: [{ name: 'redrive', ms: idleMs }],
      target: { row: 'redrive', key: 'ms', max: 50 },
    },
  ]
}

async function fill(pool) {
  await pool.query(`
    CREATE TABLE archives (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), status text NOT NULL, attempt_count int,
      last_attempt_time timestamptz, file_path text, n int)`)
  await pool.query(`
    INSERT INTO archives (status, attempt_count, last_attempt_time, file_path, n)
    SELECT 'processed', 1, now() - interval '30 days', '/mail/' || n || '.mbox', n FROM generate_series(1, ${DOCUMENTS}) n`)
  await pool.query('CREATE INDEX ON archives (n)')
  await pool.query('VACUUM ANALYZE archives')
}

/** Puts the same documents back as they were: stuck for two days, with one attempt. */
async function makeStuck(pool) {
  await pool.query(`
    UPDATE archives SET status = 'pending', attempt_count = 1, last_attempt_time = now() - interval '2 days'
     WHERE n <= ${STUCK}`)
  await pool.query('VACUUM archives')
  await pool.query('CHECKPOINT')
}

async function swept(job) {
  const { collections, failure } = await job.sweep()
  if (failure !== undefined) throw failure
  if (collections[0].failure !== undefined) throw collections[0].failure
  return collections[0].requeued
}

/** The least that one has to write: an indexed select in pages, a conditional update of each, publishing with confirms. */
async function byHand(pool, channel) {
  const cut = new Date(Date.now() - 86_400_000)
  let after = ['-infinity', '00000000-0000-0000-0000-000000000000']
  let sent = 0
  for (;;) {
    const { rows } = await pool.query(
      `SELECT a.id, a.status, a.attempt_count, a.last_attempt_time::text AS last, a.file_path
         FROM archives a
        WHERE a.status IN ('pending', 'processing') AND a.last_attempt_time < $1
          AND (a.last_attempt_time, a.id) > ($2::timestamptz, $3::uuid)
        ORDER BY a.last_attempt_time, a.id
        LIMIT ${PAGE}`,
      [cut, ...after],
    )
    const last = rows.at(-1)
    if (last === undefined) return sent
    after = [last.last, last.id]
    const { rows: mine } = await pool.query(
      `UPDATE archives a SET attempt_count = a.attempt_count + 1, last_attempt_time = now()
         FROM unnest($1::uuid[], $2::text[], $3::int[], $4::timestamptz[]) r (id, status, n, last)
        WHERE a.id = r.id AND a.status = r.status AND a.attempt_count = r.n AND a.last_attempt_time = r.last
       RETURNING a.id, a.attempt_count, a.file_path`,
      [rows.map(r => r.id), rows.map(r => r.status), rows.map(r => r.attempt_count), rows.map(r => r.last)],
    )
    for (const { id, attempt_count: attempt, file_path: path } of mine) {
      const data = { archive_id: id, file_path: path }
      const eventId = crypto.randomUUID()
      const body = { event_type: 'ArchiveIngested', event_id: eventId, timestamp: new Date(), version: '1.0', data }
      const options = { messageId: eventId, persistent: true, mandatory: true, headers: { attempt: String(attempt) } }
      channel.publish('redrive', TYPE, Buffer.from(JSON.stringify(body)), options)
    }
    await channel.waitForConfirms()
    sent += mine.length
  }
}
