import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { freePort } from './free-port.js'
import { postgresPrograms } from './postgres-programs.js'
import { fetchPostgres } from './postgres-release.js'

/** Where databases can be had for tests. */
export interface Databases {
  /** Makes an empty database, and returns its url. */
  createDatabase(): Promise<string>
  close(): Promise<void>
}

/** The server in `REDRIVE_TEST_POSTGRES_URL`, whose role must be allowed to create databases; else one of our own. */
export async function findPostgres(settings?: Settings): Promise<Databases> {
  const url = process.env.REDRIVE_TEST_POSTGRES_URL
  return url === undefined ? startPostgres(settings) : new GivenServer(url)
}

/** Settings as in `postgresql.conf`. */
export type Settings = Readonly<Record<string, string>>

/** For tests that are not about crashes: a commit does not wait for the disk. */
export const FAST: Settings = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }

/**
 * Starts a server of our own, on loopback, with the server's own defaults but for `settings`: of the PostgreSQL that
 * the machine has, or of a release that is fetched for it.
 */
export async function startPostgres(settings: Settings = {}, release?: string): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), 'redrive-postgres-'))
  let server: PostgresServer | undefined
  try {
    const owner = serverOwner()
    if (owner !== undefined) await chown(folder, owner.uid, owner.gid)
    const programs = release === undefined ? await postgresPrograms() : await fetchPostgres(release, folder)
    const init = ['-D', join(folder, 'data'), '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync']
    await promisify(execFile)(join(programs, 'initdb'), init, { cwd: folder, ...owner })
    server = new PostgresServer({ programs, folder, owner, settings, port: await freePort() })
    await server.start()
    return server
  } catch (error) {
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
    throw error
  }
}

/** A server that is ours alone: it can be stopped, and started again on the same port with the same data. */
export class PostgresServer implements Databases {
  readonly url: string
  /** Where its data is, and its programs if they were fetched for it. */
  readonly folder: string
  readonly #options: ServerOptions
  #process: ChildProcess | undefined
  #undertaker: ChildProcess | undefined

  constructor(options: ServerOptions) {
    this.#options = options
    this.url = `postgres://postgres@127.0.0.1:${options.port}/postgres`
    this.folder = options.folder
  }

  /** Resolves when it accepts connections. */
  async start(): Promise<void> {
    const { programs, folder, owner, settings, port } = this.#options
    const all = { listen_addresses: '127.0.0.1', unix_socket_directories: '', port, ...settings }
    const flags = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const child = spawn(join(programs, 'postgres'), ['-D', join(folder, 'data'), ...flags], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
      ...owner,
    })
    this.#process = child
    this.#undertaker = makeUndertaker(child, folder)
    await isReady(child, this.url)
  }

  /** `fast` rolls back what is under way; `immediate` is a crash: the next start recovers from the log. */
  async stop(mode: 'fast' | 'immediate' = 'fast'): Promise<void> {
    const child = this.#process
    this.#process = undefined
    this.#undertaker?.kill()
    if (child === undefined || !isRunning(child)) return
    const exit = once(child, 'exit')
    child.kill(mode === 'fast' ? 'SIGINT' : 'SIGQUIT')
    await exit
  }

  createDatabase(): Promise<string> {
    return createDatabase(this.url)
  }

  async close(): Promise<void> {
    await this.stop('immediate')
    await rm(this.folder, { recursive: true, force: true })
  }
}

interface ServerOptions {
  readonly programs: string
  readonly folder: string
  readonly owner: Owner | undefined
  readonly settings: Settings
  readonly port: number
}

/** A server that somebody else runs: we take away no more than we brought. */
class GivenServer implements Databases {
  readonly #made: string[] = []

  constructor(readonly url: string) {}

  async createDatabase(): Promise<string> {
    const url = await createDatabase(this.url)
    this.#made.push(url)
    return url
  }

  async close(): Promise<void> {
    for (const url of this.#made) await query(this.url, `DROP DATABASE IF EXISTS ${nameOf(url)} WITH (FORCE)`)
  }
}

async function createDatabase(server: string): Promise<string> {
  const url = new URL(server)
  url.pathname = `redrive_test_${Math.random().toString(36).slice(2)}`
  await query(server, `CREATE DATABASE ${nameOf(url.href)}`)
  return url.href
}

const nameOf = (url: string) => new URL(url).pathname.slice(1)

async function query(url: string, sql: string): Promise<void> {
  const client = new Client(url)
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

interface Owner {
  readonly uid: number
  readonly gid: number
}

/** Who the server runs as, if not as us: PostgreSQL refuses to run as root. */
export function serverOwner(): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined
  for (const name of ['postgres', 'nobody']) {
    try {
      const id = (flag: string) => Number(execFileSync('id', [flag, name], { stdio: ['ignore', 'pipe', 'ignore'] }))
      return { uid: id('-u'), gid: id('-g') }
    } catch {}
  }
  throw new Error('PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody.')
}

/** Outlives us, and takes the server and its data away should we end before our time, however that comes about. */
function makeUndertaker({ pid }: ChildProcess, folder: string): ChildProcess {
  const script = 'cat; kill -QUIT "$0"; sleep 2; rm -rf "$1"'
  const undertaker = spawn('sh', ['-c', script, String(pid), folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  undertaker.unref()
  return undertaker
}

/** Waits until a server accepts connections. */
async function isReady(child: ChildProcess, url: string): Promise<void> {
  let log = ''
  // Read to the end of its life, or the server would stand still once the pipe is full.
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log = (log + text).slice(-4000)
  })
  child.once('error', error => {
    log += error
  })
  while (child.pid !== undefined && isRunning(child)) {
    try {
      return await query(url, 'SELECT 1')
    } catch {
      await sleep(20)
    }
  }
  throw new Error(`PostgreSQL did not start:\n${log}`)
}

const isRunning = (child: ChildProcess) => child.exitCode === null && child.signalCode === null
