import type { Client, Pool } from 'pg'
import { type Duration, OptionError, parseDuration } from '../../policy/index.js'
import { checkOptions, type KnownOptions } from '../../policy/internal.js'
import type { Clock } from '../../time/index.js'
import { Database } from './database.js'
import { loadDriver } from './driver.js'
import { Listener } from './listener.js'
import { migrate } from './migrate.js'
import { PostgresStore } from './postgres-store.js'
import { checkSchema, isPool, readStoreUrl } from './store-url.js'

/** Options of `openPostgres`. */
export interface PostgresOptions {
  /** The schema that holds the store and nothing else. Created if it does not exist. Default `redrive`. */
  readonly schema?: string | undefined
  /**
   * The URL to listen on for new work, if it differs: PgBouncer in transaction mode passes no notifications on. With
   * `false` the store does not listen, and idle workers look every two seconds.
   */
  readonly listen?: string | false | undefined
  /**
   * How long connecting, and each answer, may take before the connection counts as lost. Calls that read or write much
   * may take eight times as long. Default 15 s.
   */
  readonly timeout?: Duration | undefined
  /** Whether opening may create the store, or bring it to this release. Default true. */
  readonly migrate?: boolean | undefined
  /** A clock for tests. Default: the database's. */
  readonly clock?: Clock | undefined
}

const POSTGRES_OPTIONS: KnownOptions<PostgresOptions> = {
  schema: '',
  listen: '',
  timeout: '',
  migrate: '',
  clock: 'object',
}

/** The most connections that a store has at once. */
const MAX_CONNECTIONS = {
  /** To settle. Settlements are sent one batch at a time. */
  settling: 1,
  /** To claim, and for heartbeats. */
  claiming: 2,
  /** For everything else: to enqueue, to list, and for transactions. */
  others: 5,
}

/**
 * A worker with little to do keeps the connections that claim and settle from one look at the store to the next, and with
 * them their plans. The others are soon given back to the server, which may have few.
 */
const IDLE_MS = { busy: 300_000, others: 10_000 }

/** Opens the store in a PostgreSQL database, with all its verbs. */
export async function openPostgres(at: string | Pool, options: PostgresOptions = {}): Promise<PostgresStore> {
  checkOptions('openPostgres()', options, POSTGRES_OPTIONS)
  const { listen, timeout = '15s', migrate: mayMigrate = true, clock } = options
  const { url, schema: named } = isPool(at) ? {} : readStoreUrl('url', at)
  const { schema = named ?? 'redrive' } = options
  checkSchema(schema)
  const listenUrl = typeof listen === 'string' ? readStoreUrl('listen', listen).url : undefined
  const timeoutMs = parseDuration(timeout)
  if (timeoutMs === undefined || timeoutMs < 1)
    throw new OptionError('timeout', `'timeout' must be a duration such as '15s', got ${String(timeout)}.`)
  const driver = await loadDriver()
  const settings = {
    connectionTimeoutMillis: timeoutMs,
    keepAlive: true,
    application_name: 'redrive',
  }
  const makePool = (max: number, idleTimeoutMillis: number) => {
    if (isPool(at)) return at
    return new driver.Pool({ ...settings, connectionString: url, max, idleTimeoutMillis, allowExitOnIdle: true })
  }
  const pool = makePool(MAX_CONNECTIONS.others, IDLE_MS.others)
  // The first claim and the first settlement on a connection take ten times as long as the next, since the server plans them
  // there: a pool that gave each call any connection would pay for both on all of them.
  const claiming = makePool(MAX_CONNECTIONS.claiming, IDLE_MS.busy)
  const settling = makePool(MAX_CONNECTIONS.settling, IDLE_MS.busy)
  const pools = new Set([pool, claiming, settling])
  // An idle connection that breaks is replaced when it is needed. Without a listener, it would end the process.
  const ignore = () => {}
  for (const one of pools) one.on('error', ignore)

  const common = { schema, name: nameOf(pool, schema), timeoutMs, clock }
  const database = new Database({ ...common, pool, spare: claiming })
  const claims = new Database({ ...common, pool: claiming, spare: pool, planner: 'plan_claims' })
  const settlements = new Database({ ...common, pool: settling, spare: pool })
  const connect = async (): Promise<Client> => {
    const client = new driver.Client({
      ...pool.options,
      // A pool hides it from whoever copies its options.
      password: pool.options.password,
      ...settings,
      query_timeout: timeoutMs,
      ...(listenUrl !== undefined && { connectionString: listenUrl }),
    })
    client.on('error', () => {})
    await client.connect()
    return client
  }
  const listener = new Listener(listen === false ? undefined : connect)
  const wire = {
    channel: `redrive_${schema}`,
    listener,
    // A process that nobody listens in only enqueues, and does not claim: so its next batch finds the connection that knows
    // its plans.
    notify: (channel: string, payloads: readonly string[]) => listener.notify(channel, payloads, claims),
  }
  const end = async () => {
    if (pool === at) pool.off('error', ignore)
    else await Promise.all([...pools].map(one => one.end()))
  }
  try {
    await migrate(database, mayMigrate)
  } catch (error) {
    await end()
    throw database.explain(error)
  }
  return new PostgresStore({ database, claims, settlements, wire, clock, end })
}

/** As errors name it: without the password. */
function nameOf({ options }: Pool, schema: string): string {
  const {
    host = 'localhost',
    port = 5432,
    database,
  } = options.connectionString ? fromUrl(options.connectionString) : options
  return `The schema '${schema}' of postgres://${host}:${port}/${database ?? ''}`
}

function fromUrl(text: string): { host?: string; port?: number; database?: string } {
  if (!URL.canParse(text)) return {}
  const { hostname, port, pathname } = new URL(text)
  return { host: hostname || undefined, port: port === '' ? undefined : Number(port), database: pathname.slice(1) }
}
