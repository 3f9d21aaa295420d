import { chownSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Bus, BusUnavailableError } from '../src/bus/index.js'
import { openNats, openNatsIdempotencyStore } from '../src/bus/nats/index.js'
import { openRabbitmq } from '../src/bus/rabbitmq/index.js'
import { OptionError } from '../src/policy/index.js'
import { openPostgres } from '../src/store/postgres/internal.js'

import { runCommand } from './command.js'
import type { BrokerServer } from './services/broker.js'
import { type Certificate, Certificates } from './services/certificates.js'
import { freePort } from './services/free-port.js'
import { startNats } from './services/nats.js'
import { type PostgresServer, serverOwner, startPostgres } from './services/postgres.js'
import { startRabbitmq } from './services/rabbitmq.js'
import { BROKER_MS, sharedBroker } from './services/shared-broker.js'

let certificates: Certificates
let server: Certificate
let client: Certificate
let ca: string

beforeAll(async () => {
  certificates = await Certificates.create()
  server = await certificates.server()
  client = await certificates.client('ada')
  ca = readFileSync(certificates.ca, 'utf8')
})
afterAll(() => certificates.remove())

/** Publishes and browses, so that a connection is known to work. */
async function works(bus: Bus): Promise<void> {
  await bus.declare({ chunking: 'json.parsed' })
  await bus.put('chunking.failed', { id: 'event-1', type: 'json.parsed', body: '{}' })
  await bus.publish({ id: 'event-2', type: 'json.parsed', body: '{}' })
  for await (const message of bus.browse('chunking.failed')) await message.remove()
  await bus.close()
}

/** The parameters of a URL that name the certificates, for the command. */
const parameters = () => `sslrootcert=${certificates.ca}&sslcert=${client.cert}&sslkey=${client.key}`

describe('NATS over TLS', () => {
  let broker: BrokerServer
  let host: string
  beforeAll(async () => {
    const files = ['--tlscacert', certificates.ca, '--tlscert', server.cert, '--tlskey', server.key]
    broker = await startNats(['--tls', '--tlsverify', ...files])
    host = new URL(broker.url).host
  }, BROKER_MS)
  afterAll(() => broker?.close())

  it.each([
    ['the bus', (url: string) => openNats(url)],
    ['the idempotency store', (url: string) => openNatsIdempotencyStore(url)],
    ['a cluster with one tls:// among its URLs', (url: string) => openNats(`${url.replace('tls:', 'nats:')},${url}`)],
  ])('never connects in clear to a tls:// URL: %s', { timeout: BROKER_MS }, async (_, open) => {
    const { url } = await sharedBroker('nats')
    const opening = open(url.replace('nats:', 'tls:'))
    await expect(opening).rejects.toThrow(BusUnavailableError)
    await expect(opening).rejects.toThrow("server does not support 'tls'")
  })

  it('never connects in clear where certificates are given', { timeout: BROKER_MS }, async () => {
    const { url } = await sharedBroker('nats')
    await expect(openNats(url, { tls: { ca } })).rejects.toThrow("server does not support 'tls'")
  })

  it('works with an authority and a client certificate of its own', async () => {
    const tls = certificates.options(client)
    await works(await openNats(`tls://${host}`, { tls }))
    await works(await openNats(`nats://${host}`, { tls }))
    const store = await openNatsIdempotencyStore(`tls://${host}`, { tls })
    await store.close()
  })

  it('refuses a server that the authority did not sign, and a client without a certificate', async () => {
    await expect(openNats(`tls://${host}`)).rejects.toThrow(/certificate/)
    const { cert, key } = certificates.options(client)
    await expect(openNats(`tls://${host}`, { tls: { cert, key } })).rejects.toThrow(/certificate/)
    await expect(openNats(`tls://${host}`, { tls: { ca } })).rejects.toThrow(BusUnavailableError)
  })

  it('checks the address in a URL against the certificate, and a name that is given instead', async () => {
    const named = await certificates.server('subjectAltName=DNS:localhost')
    const other = await startNats(['--tls', '--tlscert', named.cert, '--tlskey', named.key])
    const { host } = new URL(other.url)
    await expect(openNats(`tls://${host}`, { tls: { ca } })).rejects.toThrow(/does not match certificate/)
    await expect(openNats(`tls://${host}`, { tls: { ca, servername: 'other' } })).rejects.toThrow(/does not match/)
    await works(await openNats(`tls://${host}`, { tls: { ca, servername: 'localhost' } }))
    await works(await openNats(`tls://${host.replace('127.0.0.1', 'localhost')}`, { tls: { ca } }))
    await other.close()
  })

  it('goes over tls:// to any server of a cluster', async () => {
    const tls = certificates.options(client)
    await works(await openNats(`tls://127.0.0.1:${await freePort()},tls://${host}`, { tls }))
  })

  it('is what the command uses for tls://, for one server and for several', async () => {
    const dead = `127.0.0.1:${await freePort()}`
    for (const bus of [`tls://${host}?${parameters()}`, `tls://${dead},${host}?prefix=other&${parameters()}`]) {
      expect(await runCommand(['queue', 'list', '--bus', bus])).toMatchObject({ code: 0 })
    }
    const unknown = await runCommand(['queue', 'list', '--bus', `tls://${host}`])
    expect(unknown.code).toBe(1)
    expect(unknown.err).toMatch(/certificate/)
  })
})

describe('RabbitMQ over TLS', () => {
  let broker: BrokerServer
  let host: string
  let management: string
  beforeAll(async () => {
    const [port, httpsPort] = [await freePort(), await freePort()]
    const files = { cacertfile: certificates.ca, certfile: server.cert, keyfile: server.key }
    const settings = (prefix: string) => Object.entries(files).map(([name, file]) => `${prefix}.${name} = ${file}`)
    broker = await startRabbitmq([
      `listeners.ssl.1 = 127.0.0.1:${port}`,
      ...settings('ssl_options'),
      'ssl_options.verify = verify_peer',
      'ssl_options.fail_if_no_peer_cert = true',
      'management.ssl.ip = 127.0.0.1',
      `management.ssl.port = ${httpsPort}`,
      ...settings('management.ssl'),
    ])
    host = `127.0.0.1:${port}`
    management = `https://127.0.0.1:${httpsPort}`
  }, BROKER_MS)
  afterAll(() => broker?.close())

  it('never connects in clear to an amqps:// URL', async () => {
    await expect(openRabbitmq(broker.url.replace('amqp:', 'amqps:'))).rejects.toThrow(BusUnavailableError)
  })

  it('refuses certificates for a URL that connects in clear', async () => {
    await expect(openRabbitmq(broker.url, { tls: { ca } })).rejects.toThrow(OptionError)
  })

  it('works with an authority and a client certificate of its own, the management too', async () => {
    const tls = certificates.options(client)
    const bus = await openRabbitmq(`amqps://${host}`, { tls, managementUrl: management })
    await bus.declare({ chunking: 'json.parsed' })
    expect(await bus.discover()).toContainEqual({ name: 'chunking', type: 'json.parsed' })
    await works(bus)
  })

  it('refuses a server that the authority did not sign, and a client without a certificate', async () => {
    await expect(openRabbitmq(`amqps://${host}`)).rejects.toThrow(/certificate/)
    await expect(openRabbitmq(`amqps://${host}`, { tls: { ca } })).rejects.toThrow(BusUnavailableError)
  })

  it('is what the command uses for amqps://', async () => {
    const bus = `amqps://${host}?${parameters()}`
    expect(await runCommand(['queue', 'list', '--bus', bus, '--monitor', management])).toMatchObject({ code: 0 })
    const missing = await runCommand(['queue', 'list', '--bus', `amqps://${host}?sslrootcert=nope.pem`])
    expect(missing).toMatchObject({ code: 1, err: expect.stringContaining("'/nope.pem', which cannot be read") })
  })
})

describe('PostgreSQL over TLS', () => {
  let database: PostgresServer
  let url: string
  beforeAll(async () => {
    const rules = join(certificates.folder, 'pg_hba.conf')
    // Our own tests' role may come in clear, `ada` only with her certificate.
    writeFileSync(rules, 'host all postgres 127.0.0.1/32 trust\nhostssl all ada 127.0.0.1/32 cert\n')
    const owner = serverOwner()
    for (const path of [certificates.folder, certificates.ca, server.cert, server.key, rules])
      if (owner !== undefined) chownSync(path, owner.uid, owner.gid)
    database = await startPostgres({
      ssl: 'on',
      ssl_ca_file: certificates.ca,
      ssl_cert_file: server.cert,
      ssl_key_file: server.key,
      hba_file: rules,
    })
    const admin = new pg.Client(database.url)
    await admin.connect()
    await admin.query('CREATE ROLE ada LOGIN; GRANT CREATE ON DATABASE postgres TO ada')
    await admin.end()
    url = database.url.replace('postgres@', 'ada@')
  }, BROKER_MS)
  afterAll(() => database?.close())

  /** Whether each connection of a store is encrypted, the one that listens included. */
  async function encryption(): Promise<unknown[]> {
    const admin = new pg.Client(database.url)
    await admin.connect()
    const { rows } = await admin.query<{ ssl: boolean }>(
      `SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'ada'`,
    )
    await admin.end()
    return rows.map(({ ssl }) => ssl)
  }

  it('encrypts every connection of a store that is opened by a URL', async () => {
    const store = await openPostgres(`${url}?sslmode=verify-full&${parameters()}`, { schema: 'by_url' })
    const unwatch = store.watch(() => {})
    await expect.poll(encryption).toEqual([true, true])
    unwatch()
    await store.close()
  })

  it('encrypts every connection of a store that is opened on a pool', async () => {
    const { hostname: host, port } = new URL(url)
    const pool = new pg.Pool({
      ...{ host, port: Number(port), user: 'ada', database: 'postgres' },
      ssl: certificates.options(client),
    })
    const store = await openPostgres(pool, { schema: 'by_pool' })
    const unwatch = store.watch(() => {})
    await expect.poll(encryption).toEqual([true, true])
    unwatch()
    await store.close()
    await pool.end()
  })

  it('refuses a server that the authority did not sign', async () => {
    await expect(openPostgres(`${url}?sslmode=verify-full`)).rejects.toThrow(/certificate/)
  })

  it('is what the command uses', async () => {
    const store = `${url}?sslmode=verify-full&${parameters()}`
    expect(await runCommand(['migrate', '--store', store])).toMatchObject({ code: 0 })
    expect((await runCommand(['migrate', '--store', url])).code).toBe(1)
  })
})
