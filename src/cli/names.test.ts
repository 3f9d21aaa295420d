import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCommand } from '../../test/command.js'
import { openSqlite } from '../store/sqlite/index.js'
import { textWidth } from './terminal/text-width.js'

/** Names that could break a table, a line or a terminal. The longest are as long as a store takes. */
const NAMES: Readonly<Record<string, string>> = {
  'a generated id': '01a1dec8-2ea2-7343-8a49-1777051b8dbe',
  'a long name': 'x'.repeat(512),
  'a long name with spaces': 'order 42 '.repeat(56),
  'wide characters': '漢字'.repeat(80),
  'a line break': 'a\nredrive: 5 moved.',
  'escape sequences': 'a\x1b[2J\x1b]0;owned\x07\x9b31mb',
  'right-to-left marks': 'a\u202egpj.exe\u2066\u200f\u061cb',
}
/** Command lines are printed whole, to be copied. */
const isCommandLine = (line: string) => line.startsWith('    redrive ')

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** Puts a dead letter and a waiting task into the store, with the name wherever a store takes one. */
async function fill(name: string): Promise<void> {
  const store = await openSqlite(join(folder, '.redrive/redrive.db'))
  const lane = { kind: name, category: name, key: name }
  await store.enqueue([{ ...lane, id: name, payload: JSON.stringify(name) }])
  const request = { worker: name, leaseMs: 60_000, rooms: [{ kinds: [name] }], limit: 1, isIdle: true }
  const { tasks, now } = await store.claim(request)
  const verdict = { class: 'retryable', code: name } as const
  const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: name, verdict, error: name }
  const outcome = { type: 'dead', reason: 'attempts_exhausted' } as const
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
  await store.enqueue([{ ...lane, id: `${name.slice(0, -1)}.`, payload: '{}' }])
  await store.close()
}

const COMMANDS: readonly ((name: string) => readonly string[])[] = [
  () => ['task', 'ls'],
  () => ['task', 'ls', '--limit', '1'],
  name => ['task', 'show', name],
  name => ['task', 'show', `${name.slice(0, -1)}?`],
  () => ['dlq', 'ls'],
  name => ['dlq', 'show', name],
  name => ['dlq', 'show', `${name.slice(0, -1)}.`],
  name => ['dlq', 'show', `${name.slice(0, -1)}?`],
  name => ['dlq', 'redrive', name, `${name.slice(0, -1)}?`, `${name.slice(0, -1)}.`, '--dry-run'],
  name => ['dlq', 'redrive', name, `${name.slice(0, -1)}?`, '--yes'],
  () => ['dlq', 'ls', '--all'],
  () => ['dlq', 'count', '--by', 'kind,category,key,code'],
  () => ['lane', 'ls'],
  () => ['stats'],
  name => ['lane', 'pause', '--kind', name, '--category', name, '--key', name],
  name => ['lane', 'limit', '--kind', name, '--concurrency', '1', '--why', name],
  name => ['task', 'cancel', name, `${name.slice(0, -1)}?`, '--why', name, '--yes'],
  name => ['dlq', 'discard', name, `${name.slice(0, -1)}?`, '--why', name, '--yes'],
  () => ['audit', 'tail'],
  name => ['worker', 'tasks.js', '--kind', name],
  name => ['worker', name],
  name => ['migrate', '--grant', name],
  name => ['backup', name],
  name => ['backup', name],
  name => ['task', name],
  name => [name],
  name => ['task', 'ls', `--${name}`],
  name => ['queue', 'purge', name, '--preset', name],
]

describe.each(Object.entries(NAMES))('%s in an id, kind, category, key, code, worker or argument', (_, name) => {
  it.each([40, 80])('fits %i columns, and drives nothing', async columns => {
    await fill(name)
    writeFileSync(join(folder, 'tasks.js'), `export default [{ kind: 'k', policy: {}, policyHash: '', handler() {} }]`)
    const terminal = { isTTY: { stdin: true, stdout: true, stderr: true }, columns, env: { NO_COLOR: '1' } }
    for (const command of COMMANDS) {
      const argv = command(name)
      const { out, err } = await runCommand(argv, { cwd: folder, ...terminal })
      const about = `redrive ${argv.map(word => word.slice(0, 20)).join(' ')}`
      const lines = (out + err).split('\n')
      expect(out + err, about).not.toMatch(/[^\P{Cc}\n]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u)
      expect(
        lines.filter(line => line.startsWith('redrive: 5')),
        about,
      ).toEqual([])
      const tooWide = lines.filter(line => textWidth(line) > columns && !isCommandLine(line))
      expect(tooWide, about).toEqual([])
      // An argument that is repeated makes a message no longer than a screen.
      expect(err.length, about).toBeLessThan(1000)
    }
  })

  it('is exact in JSON', async () => {
    await fill(name)
    const { json } = await runCommand(['dlq', 'show', name, '--output', 'json'], { cwd: folder })
    const { id, kind, category, key, errorCode, errorMessage } = json()
    expect([id, kind, category, key, errorCode, errorMessage]).toEqual(Array(6).fill(name))
  })
})
