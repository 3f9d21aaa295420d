import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { canInstall, installing } from './debian.js'
import { freePort } from './free-port.js'
import { serverOwner } from './postgres.js'

/** Starts a PgBouncer in transaction mode, with few connections to the server, before a database. */
export async function startPgbouncer(database: string): Promise<{ url: string; close(): Promise<void> }> {
  const program = await pgbouncerProgram()
  const folder = await mkdtemp(join(tmpdir(), 'redrive-pgbouncer-'))
  const target = new URL(database)
  const url = new URL(database)
  url.port = String(await freePort())
  await writeFile(join(folder, 'users'), `"${target.username}" ""\n`)
  await writeFile(
    join(folder, 'pgbouncer.ini'),
    `[databases]
* = host=${target.hostname} port=${target.port}
[pgbouncer]
listen_addr = ${url.hostname}
listen_port = ${url.port}
unix_socket_dir =
auth_type = trust
auth_file = ${join(folder, 'users')}
pool_mode = transaction
default_pool_size = 3
`,
  )
  const owner = serverOwner()
  if (owner !== undefined)
    for (const path of ['', 'users', 'pgbouncer.ini']) await chown(join(folder, path), owner.uid, owner.gid)
  const child = spawn(program, [join(folder, 'pgbouncer.ini')], { stdio: 'ignore', ...owner })
  await isReady(url.href)
  return {
    url: url.href,
    async close() {
      child.kill('SIGINT')
      await once(child, 'exit')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function pgbouncerProgram(): Promise<string> {
  const find = () =>
    [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin']
      .map(place => join(place, 'pgbouncer'))
      .find(path => existsSync(path))
  const there = find()
  if (there !== undefined) return there
  if (await canInstall()) await installing('apt-get update; apt-get install -y --no-install-recommends pgbouncer')
  const installed = find()
  if (installed !== undefined) return installed
  throw new Error('The tests need PgBouncer, and it is not on this machine: on Debian, apt-get install pgbouncer.')
}

async function isReady(url: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    const client = new Client(url)
    try {
      await client.connect()
      return await client.end()
    } catch (error) {
      if (tries === 500) throw error
      await sleep(20)
    }
  }
}
