import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { type NewDocument, type SourceUnderTest, sourceConformance } from '../../testing/index.js'
import { openSqliteSource } from '../index.js'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-source-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const COLUMNS = `id TEXT PRIMARY KEY, status TEXT, attemptCount INTEGER, lastAttemptTime, generation INTEGER, retryAt,
  dispatches INTEGER, createdAt, lastError TEXT, priority INTEGER`

let files = 0
const newFile = () => join(folder, `${++files}.db`)

async function open(time: 'iso' | 'ms' | 's'): Promise<SourceUnderTest> {
  const path = newFile()
  const db = new Database(path)
  db.pragma('journal_mode = WAL')
  const write = (ms: number | undefined) => {
    if (ms === undefined) return null
    return time === 'iso' ? new Date(ms).toISOString() : time === 's' ? ms / 1000 : ms
  }
  let tables = 0
  return {
    source: await openSqliteSource(path),
    other: await openSqliteSource(path),
    settings: { time },
    create: async () => {
      const name = `documents_${++tables}`
      db.exec(`CREATE TABLE ${name} (${COLUMNS})`)
      return name
    },
    insert: async (collection, documents) => {
      const statement = db.prepare(`INSERT INTO ${collection} (id, status, attemptCount, lastAttemptTime, generation,
        retryAt, createdAt, priority) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`)
      const values = (document: NewDocument) => [
        document.id,
        document.status ?? null,
        document.attemptCount ?? null,
        write(document.lastAttemptTime),
        document.generation ?? null,
        write(document.retryAt),
        write(document.createdAt),
        document.priority ?? null,
      ]
      db.transaction(() => documents.forEach(document => void statement.run(...values(document))))()
    },
    close: async () => void db.close(),
  }
}

describe.each(['iso', 'ms', 's'] as const)('a SQLite source with times as %s keeps the contract', time => {
  for (const { name, run } of sourceConformance(() => open(time))) it(name, { timeout: 60_000 }, run)
})
