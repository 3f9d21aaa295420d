import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCommand } from '../../test/command.js'
import { fingerprint } from '../fingerprint/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'

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

/**
 * Puts dead letters, a waiting task, an operation, a budget and marks into the store, with the name wherever a store takes one.
 * Returns the ids of the operation and of the failure group.
 */
async function fill(name: string): Promise<{ readonly operation: string; readonly group: string }> {
  const store = await openSqlite(join(folder, '.redrive/redrive.db'))
  const lane = { kind: name, category: name, key: name }
  await store.enqueue([{ ...lane, id: name, payload: JSON.stringify(name) }])
  const request = { worker: name, leaseMs: 60_000, rooms: [{ kinds: [name] }], limit: 1, isIdle: true }
  const { tasks, now } = await store.claim(request)
  const verdict = { class: 'retryable', code: name } as const
  const group = fingerprint({ kind: name, code: name, error: name })
  const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: name, verdict, error: name, group }
  const outcome = { type: 'dead', reason: 'attempts_exhausted' } as const
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
  await store.enqueue([{ ...lane, id: `${name.slice(0, -1)}.`, payload: '{}' }])
  const by = { who: name, why: name }
  const set = { filter: lane, until: await store.now() }
  const { id: operation } = await store.operations.create({ act: 'redrive', set, by })
  await store.operations.change(operation, 'stop', by)
  await store.budgets.set({ kind: name, category: name }, { failures: { share: 0.5 }, retries: { share: 0.5 } })
  await store.groups.mark(group.id, { state: 'fixed', release: name }, by)
  await store.groups.addRule({ kind: name, pattern: name }, by)
  await store.heartbeat({ worker: name, leaseMs: 60_000, release: name, kinds: [name], categories: [name], host: name })
  await store.close()
  return { operation, group: group.id }
}

type Ids = Awaited<ReturnType<typeof fill>>

const COMMANDS: readonly ((name: string, ids: Ids) => readonly string[])[] = [
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
  name => ['dlq', 'redrive', '--kind', name, '--dry-run'],
  name => ['dlq', 'redrive', '--kind', `${name.slice(0, -1)}?`, '--yes'],
  name => ['why', name],
  name => ['why', `${name.slice(0, -1)}.`],
  () => ['groups', 'ls'],
  (_, { group }) => ['groups', 'show', group],
  name => ['groups', 'show', name],
  () => ['groups', 'rule', 'ls'],
  () => ['ops', 'ls'],
  (_, { operation }) => ['ops', 'show', operation],
  name => ['ops', 'show', name],
  (name, { operation }) => ['ops', 'undo', operation, '--why', name, '--yes'],
  () => ['budget', 'ls'],
  () => ['worker', 'ls'],
  () => ['policy', 'report'],
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
    const ids = await fill(name)
    writeFileSync(join(folder, 'tasks.js'), `export default [{ kind: 'k', policy: {}, policyHash: '', handler() {} }]`)
    const terminal = { isTTY: { stdin: true, stdout: true, stderr: true }, columns, env: { NO_COLOR: '1' } }
    for (const command of COMMANDS) {
      const argv = command(name, ids)
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
