import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest'
import { deadLetters } from '../../../../test/dead-letters.js'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'

let folder: StoreFolder
beforeEach(() => {
  folder = storeFolder()
})
afterEach(() => folder.remove())

it('gives the answer first, then other causes, then what to do', async () => {
  await folder.inStore(store => store.enqueue([{ id: 'a', kind: 'email', key: 't 7', payload: '1' }]))
  await folder.redrive(['lane', 'pause', '--kind', 'email', '--key', 't 7', '--why', 'abuse'])
  const { code, lines } = await folder.redrive(['why', 'a'])
  expect(code).toBe(0)
  expect(lines()[0]).toMatch(/^Its lane is paused by ada since .*Z: abuse\.$/)
  expect(lines().slice(1)).toEqual([
    'Task a of kind email is waiting.',
    '',
    'Also',
    '  No worker is running.',
    '',
    'What to do',
    '  Resume its lane.',
    "    redrive lane resume --kind email --key 't 7'",
    "  Start a worker that has code for 'email'.",
    '    redrive worker FILE',
  ])
})

it('names the command for a dead letter, on the store that was given', async () => {
  await folder.inStore(store => deadLetters(store, [{ id: '-x', kind: 'email' }]))
  const { lines } = await folder.redrive(['why', '--store', 'sqlite:.redrive/redrive.db', '--', '-x'])
  expect(lines()[0]).toMatch(/^It is dead\. /)
  expect(lines().at(-1)).toBe('    redrive dlq redrive --store sqlite:.redrive/redrive.db -- -x')
})

it('has the same answer for programs', async () => {
  await folder.inStore(store => store.enqueue([{ id: 'a', kind: 'email', payload: '1' }]))
  const { json } = await folder.redrive(['why', 'a', '--output', 'json'])
  expect(json()).toEqual({
    id: 'a',
    kind: 'email',
    category: '',
    key: '',
    status: 'waiting',
    isTask: true,
    answer: 'No worker is running.',
    causes: [{ code: 'no_worker', text: 'No worker is running.', facts: { kind: 'email', workers: 0, kinds: [] } }],
    actions: [{ text: "Start a worker that has code for 'email'.", command: 'redrive worker FILE' }],
  })
})

it('answers for a document of the collections, also without a store', async () => {
  const db = new Database(join(folder.path, 'app.db'))
  onTestFinished(() => void db.close())
  const columns = '(id TEXT PRIMARY KEY, status TEXT, attemptCount INTEGER, lastAttemptTime TEXT)'
  for (const table of ['archives', 'chunks']) db.exec(`CREATE TABLE ${table} ${columns}`)
  const old = new Date(Date.now() - 48 * 3_600_000).toISOString()
  const insert = (table: string, id: string) =>
    db.prepare(`INSERT INTO ${table} VALUES (?, 'pending', 1, ?)`).run(id, old)
  insert('archives', 'a1')
  insert('archives', 'both')
  insert('chunks', 'both')
  writeFileSync(join(folder.path, 'package.json'), '{}')
  writeFileSync(
    join(folder.path, 'redrive.config.mjs'),
    `const event = { type: 'archive.ingested', data: ({ id }) => ({ id }) }
     const names = ['archives', 'chunks', 'not-there']
     export default { source: 'sqlite:./app.db', collections: names.map(name => ({ name, event })) }`,
  )
  const why = (id: string) => folder.redrive(['why', id])
  expect((await why('a1')).out).toMatch(/^archives\/a1: pending, attempt 1 of 3\n[\s\S]*the next sweep requeues it/)
  expect(await why('both')).toMatchObject({
    code: 1,
    err: expect.stringContaining(
      "archives and chunks have the id 'both'. To ask about one, run: redrive docs why archives both",
    ),
  })
  expect((await why('nobody')).err).toContain('There is no store')
  await folder.inStore(store => store.enqueue([{ id: 'a', kind: 'email', payload: '1' }]))
  expect((await why('a')).out).toContain('No worker is running.')
  expect((await why('nobody')).err).toContain("There is no task 'nobody'")
  const env = { REDRIVE_SOURCE: 'postgres://127.0.0.1:1/app' }
  const { code, err } = await folder.redrive(['why', 'nobody'], { env })
  expect(code).toBe(1)
  expect(err).toMatch(/^Your collections cannot be read: .*\n[\s\S]*There is no task 'nobody'/)
})

it('says that there is no such task', async () => {
  await folder.inStore(store => store.enqueue([{ id: 'a', kind: 'email', payload: '1' }]))
  const { code, out, err } = await folder.redrive(['why', 'b'])
  expect([code, out]).toEqual([1, ''])
  expect(err).toContain("There is no task 'b': it was never enqueued here, or has been pruned.")
})
