import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'

/** The processor time of each process of a server, in milliseconds. */
export function cpuOf(postmaster) {
  const times = new Map()
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    try {
      if (parentOf(pid) !== postmaster) continue
      times.set(pid, Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6)
    } catch {
      // It has ended.
    }
  }
  return times
}

/** The processor time since then of the processes that are still there. */
export function spentSince(before, after) {
  return [...after].reduce((sum, [pid, ms]) => sum + ms - (before.get(pid) ?? 0), 0)
}

function parentOf(pid) {
  return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1]
}

/** The process that started those of a server's connections. */
export async function postmasterOf(url) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid')
  const parent = parentOf(rows[0].pid)
  await client.end()
  return parent
}
