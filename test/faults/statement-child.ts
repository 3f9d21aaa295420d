import Database from 'better-sqlite3'
import pg from 'pg'
import { timetables } from '../../src/calendar/internal.js'
import { contractOf } from '../../src/store/internal.js'
import { openStore } from './open-store.js'

/** One act that takes several statements. The process is killed when it is about to make the n-th, or has just sent it. */
const { url, act, id, key, statement, isSent } = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '{}')

let made = -Infinity
function killing(call: (...args: never[]) => unknown) {
  return function (this: unknown, ...args: never[]): unknown {
    const isIts = ++made === statement
    if (isIts && !isSent) process.kill(process.pid, 'SIGKILL')
    const answer = Reflect.apply(call, this, args)
    if (isIts) setImmediate(() => process.kill(process.pid, 'SIGKILL'))
    return answer
  }
}

const statements = Object.getPrototypeOf(new Database(':memory:').prepare('SELECT 1'))
for (const name of ['run', 'get', 'all']) statements[name] = killing(statements[name])
Database.prototype.exec = killing(Database.prototype.exec) as typeof Database.prototype.exec
pg.Client.prototype.query = killing(pg.Client.prototype.query) as typeof pg.Client.prototype.query

const store = contractOf(await openStore(url, { listen: false }))
await store.now()
const known = timetables()
console.log('ready')
made = 0
if (act === 'fire') await store.schedules.fire(100, known)
else {
  const unique = { key, while: 'unfinished', conflict: 'replace' } as const
  await store.enqueue([{ id, kind: 'k', payload: '1', unique }])
}
process.exit()
