import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCommand } from '../../test/command.js'
import { fingerprint } from '../fingerprint/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'

/** Names that run something, or mean something else, in a shell or to the command, unless they are quoted. */
const NAMES = [
  '--x$(touch pwned)',
  '--all',
  '-h',
  ' ',
  "'; touch pwned; '",
  '"`touch pwned`"',
  "\\\\'; touch pwned; '\\",
  "a\n\x1b[31m'; touch pwned; '\\",
  "\u202e漢'`touch pwned`",
  '=touch ~/*?[a]{b,c} !! & | ; > pwned < #',
]

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-suggest-'))
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const SETTINGS = {
  failureBudget: 1,
  stageBudgets: {},
  checkInterval: 1000,
  budgetWindow: undefined,
  completedFrom: 0.95,
  partialFrom: 0.5,
  maxUnfinished: 1000,
  concurrency: {},
}

/**
 * A store with the name wherever it takes one: two dead letters, a waiting task, a paused lane, a run, a
 * batch, a budget, an operation.
 */
async function fill(
  name: string,
): Promise<{ readonly operation: string; readonly group: string; readonly run: string }> {
  const store = await openSqlite(join(folder, 'other.db'))
  const lane = { kind: name, category: name, key: name }
  await store.enqueue([name, `${name}2`].map(id => ({ ...lane, id, payload: '{}' })))
  const rooms = [{ kinds: [name] }]
  const { tasks, now } = await store.claim({ worker: name, leaseMs: 60_000, rooms, limit: 2, isIdle: true })
  const group = fingerprint({ kind: name, code: name, error: name })
  const verdict = { class: 'retryable', code: name } as const
  const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: name, verdict, error: name, group }
  const outcome = { type: 'dead', reason: 'attempts_exhausted' } as const
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
  await store.enqueue([{ ...lane, id: `${name}3`, payload: '{}' }])
  await store.pause(lane, { isPaused: true })
  const by = { who: name, why: name }
  const { id: operation } = await store.operations.create({
    act: 'redrive',
    set: { filter: lane, until: await store.now() },
    by,
  })
  await store.operations.change(operation, 'stop', by)
  await store.budgets.set({ kind: name, category: name }, { failures: { share: 0.5 } })
  const reader = { name: 'w', leaseMs: 60_000 }
  const run = /^[\w.-]+$/.test(name) ? name : 'r'
  await store.runs.open({ id: run, pipeline: 'p', version: '1', stages: ['old'], settings: SETTINGS, reader })
  await store.runs.take(run, { reader: 'w', leaseMs: 60_000, position: 0, items: [{ payload: '{}' }], isEnd: true })
  await store.runs.change(run, { stages: ['new'] })
  await store.batches.fill(run, { position: 0, tasks: [{ ...lane, payload: '{}' }], isEnd: false })
  await store.close()
  return { operation, group: group.id, run }
}

/** The words that a shell makes of each line, after all of them have run. */
function wordsIn(shell: string, lines: readonly string[]): string[][] {
  const script = ['redrive() { printf "%s\\0" "$@"; printf "\\n\\0"; }', ...lines].join('\n')
  const env = { PATH: process.env.PATH, HOME: folder, LC_ALL: 'C' }
  const out = execFileSync(shell, ['-c', script], {
    cwd: folder,
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return out
    .split('\n\0')
    .slice(0, -1)
    .map(words => words.split('\0').slice(0, -1))
}

const at = ['--store', 'sqlite:./other.db']

describe.each(NAMES)('the name %j', name => {
  it('reaches every command that is suggested as it is, and runs nothing', async () => {
    const { operation, group, run } = await fill(name)
    const asked = [
      ['dlq', 'show', ...at, '--', name],
      ['dlq', 'show', ...at, '--', `${name}3`],
      ['dlq', 'show', ...at, '--', `${name}4`],
      ['why', ...at, '--', name],
      ['why', ...at, '--', `${name}3`],
      ['groups', 'show', ...at, group],
      ['ops', 'show', ...at, operation],
      ['ops', 'undo', ...at, operation],
      ['dlq', 'redrive', ...at, `--kind=${name}`, '--yes'],
      ['dlq', 'edit', ...at, '--payload', '{}', '--', `${name}3`],
      ['pipeline', 'ls', ...at],
      ['pipeline', 'show', ...at, '--', run],
      ['stats', ...at],
      ['task', 'show', ...at, '--', `${name}3`],
      ['task', 'show', ...at, '--', `${name}4`],
      ['batch', 'show', ...at, '--', run],
      ['budget', 'lift', ...at, `--kind=${name}2`],
      ['budget', 'ls', ...at],
      ['lane', 'ls', ...at],
      ['lane', 'limit', ...at, `--kind=${name}`, '--none'],
      ['lane', 'resume', ...at, '--kind=pipeline:p'],
    ]
    const printed = new Set<string>()
    for (const argv of asked) {
      const { out, err } = await runCommand(argv, { cwd: folder })
      for (const [command] of (out + err).matchAll(/(?<=^ {4}|: )redrive .*/gm)) printed.add(command)
    }
    const lines = [...printed]
    expect(lines.length).toBeGreaterThan(8)

    const words = wordsIn('bash', lines)
    expect(words).toHaveLength(lines.length)
    wordsIn('sh', lines)
    expect(existsSync(join(folder, 'pwned'))).toBe(false)

    const isName = (word: string) =>
      [name, `${name}2`, `${name}3`].includes(word.replace(/^--(kind|category|key|stage)=/, ''))
    expect(words.filter(argv => argv.some(isName)).length).toBeGreaterThan(3)
    for (const argv of words) {
      expect(argv).toEqual(expect.arrayContaining(at))
      const isOurs = (word: string) => /^(--?[a-z-]*|[a-z0-9:./-]+|[A-Z]+|50%)$/.test(word)
      expect(argv.filter(word => !isName(word) && !isOurs(word))).toEqual([])
      // Each is a command that exists, with flags that it takes, for something that is there.
      const { err } = await runCommand(argv, { cwd: folder })
      expect(err, argv.join(' ')).not.toMatch(
        /unknown|too many|missing|There is no (?!file 'FILE')|has no (?!stage 'STAGE')/,
      )
    }
  })
})
