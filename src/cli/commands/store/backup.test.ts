import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { runCommand } from '../../../../test/command.js'
import { openSqlite } from '../../../store/sqlite/index.js'
import type { Environment } from '../../environment.js'

let folder: string
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
  const store = await openSqlite(join(folder, '.redrive/redrive.db'))
  await store.enqueue(Array.from({ length: 500 }, () => ({ kind: 'k', payload: JSON.stringify('x'.repeat(4000)) })))
  await store.close()
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const redrive = (argv: readonly string[], overrides: Partial<Environment> = {}) =>
  runCommand(argv, { cwd: folder, ...overrides })

it('copies the store to a file, and says so', async () => {
  const { code, out, err } = await redrive(['backup', 'copy.db'])
  expect({ code, out }).toEqual({ code: 0, out: '' })
  expect(err).toBe(`Backed up to 'copy.db': ${statSync(join(folder, 'copy.db')).size} bytes.\n`)
  const list = await redrive(['task', 'ls', '--store', 'sqlite:./copy.db', '--limit', '1000', '--output', 'jsonl'])
  expect(list.lines()).toHaveLength(500)
})

it('refuses a file that exists without --yes, and replaces it with it', async () => {
  writeFileSync(join(folder, 'copy.db'), 'precious')
  expect(await redrive(['backup', 'copy.db'])).toMatchObject({
    code: 2,
    err: "redrive: 'copy.db' exists already. Name another file, or pass --yes to replace it.\n",
  })
  const terminal = { isTTY: { stdin: true, stdout: true, stderr: true } }
  const answered = await redrive(['backup', 'copy.db'], { ...terminal, prompt: async () => 'n' })
  expect(answered).toMatchObject({ code: 2, err: 'redrive: Not confirmed. No backup was written.\n' })
  expect(statSync(join(folder, 'copy.db')).size).toBe('precious'.length)
  expect(await redrive(['backup', 'copy.db', '--yes'])).toMatchObject({ code: 0 })
})

it('refuses what it cannot do, and says what to do instead', async () => {
  const itself = await redrive(['backup', '.redrive/redrive.db', '--yes'])
  expect(itself.code).toBe(2)
  expect(itself.err).toContain('is the store itself')
  expect(await redrive(['backup', 'nowhere/copy.db'])).toMatchObject({
    code: 1,
    err: "redrive: 'nowhere/copy.db' cannot be created (ENOENT). Does its folder exist, and may you write there?\n",
  })
  const overFolder = await redrive(['backup', '.redrive', '--yes'])
  expect(overFolder).toMatchObject({ code: 1, err: expect.stringContaining("'.redrive' cannot be created (EISDIR).") })
  expect(readdirSync(folder)).toEqual(['.redrive'])
  const missing = await redrive(['backup', 'copy.db', '--store', 'sqlite:./none.db'])
  expect(missing).toMatchObject({ code: 1, err: expect.stringContaining("There is no store at 'none.db'.") })
  const postgres = await redrive(['backup', 'copy.db', '--store', 'postgres://app:secret@db/app'])
  expect(postgres.code).toBe(2)
  expect(postgres.err).toContain('pg_dump --schema redrive')
  expect(postgres.err).not.toContain('secret')
  expect(await redrive(['backup', 'copy.db', '--store', 'mongodb://db'])).toMatchObject({ code: 2 })
  expect(existsSync(join(folder, 'copy.db'))).toBe(false)
})

it('stopped by Ctrl-C, it leaves nothing behind and ends with 1', async () => {
  const onSignal = (callback: (signal: string) => void) => {
    callback('SIGINT')
    return () => {}
  }
  expect(await redrive(['backup', 'copy.db'], { onSignal })).toMatchObject({
    code: 1,
    err: 'SIGINT: stopping after this page.\nStopped. No backup was written.\n',
  })
  expect(readdirSync(folder)).toEqual(['.redrive'])
})
