import { chownSync, statSync } from 'node:fs'
import pg from 'pg'
import { beforeAll } from 'vitest'
import { ownPostgres } from './own-postgres.js'
import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { smallDisk } from './small-disk.js'
import { diskFullFaults } from './suites/disk-full.js'

const dice = diceOf("a disk without room for PostgreSQL's tables")
// Before the server, which would keep it busy: what is made first is taken away last.
const disk = smallDisk(96)
// The server's write-ahead log has room elsewhere: without that room the server would stop.
const postgres = ownPostgres()

/** Says something to the server that no transaction may hold. */
async function say(sql: string): Promise<void> {
  const client = new pg.Client(postgres.server.url)
  await client.connect()
  await client.query(sql).finally(() => client.end())
}

beforeAll(async () => {
  const { uid, gid } = statSync(postgres.server.folder)
  chownSync(disk.folder, uid, gid)
  await say(`CREATE TABLESPACE small LOCATION '${disk.folder}'`)
})

async function openScene(): Promise<Scene> {
  const url = await postgres.server.createDatabase()
  await say(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET TABLESPACE small`)
  return Scene.on(url)
}

diskFullFaults({ disk, dice, openScene })
